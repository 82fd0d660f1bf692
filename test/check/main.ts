/** `npm run check`: what holds for the project as a whole. Exits with 1 when something does not. */
import { checks, root } from './all.ts';
import { runChecks } from './check.ts';
import { readProject } from './project.ts';

const results = await runChecks(checks, readProject(root), (line) => console.log(line));
const failed = results.filter(({ problems }) => problems.length > 0);
console.log(`${results.length - failed.length} checks passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;
