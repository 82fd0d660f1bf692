/**
 * `npm run test:proof [-- load|by-hand|slow|docs] [Jest's own arguments]`: the tests of `describeProof`, which take too long or load
 * the machine too much for `npm test`. Without a topic: all.
 *
 * The last line is `N passed, N failed, N skipped`. Exits with 1 when something failed or when nothing ran. With WINDLASS_KEEP=1
 * the clusters stay up for the next run.
 */

import { root } from './check/all.ts';
import { runPhases } from './runner/command.ts';
import { groupedFiles, isTopic, topics } from './runner/groups.ts';
import { patternsIn } from './runner/jest.ts';
import { untilInterrupted } from './runner/phase.ts';
import { platformPhases } from './runner/platform-phases.ts';

const args = process.argv.slice(2);
const isWord = (arg: string): boolean => !arg.startsWith('-') && !arg.startsWith('test/');
const unknown = args.filter((arg) => isWord(arg) && !isTopic(arg));
if (unknown.length > 0) {
  console.error(`No topic "${unknown.join('", "')}": there are ${topics.join(', ')}`);
  process.exit(2);
}
const asked = args.filter(isTopic);
const groups = asked.length > 0 ? asked : topics;
const rest = args.filter((arg) => !isTopic(arg));

const signal = untilInterrupted();
const phases = platformPhases({ prefix: 'proof', groups, keep: process.env.WINDLASS_KEEP === '1', signal }).filter(
  ({ name }) => {
    const files = groupedFiles(root, `test/${name}`, patternsIn(rest));
    return groups.some((group) => files[group].length > 0);
  },
);
process.exit(await runPhases(phases, rest, signal));
