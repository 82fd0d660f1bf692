/**
 * `npm test`: every phase in order; `npm test -- unit [Jest's own arguments]`: one of them; `npm test -- flaky`: which files of
 * integration and e2e were flaky or red in the last runs on this machine; `npm test -- order`: takes the times of the last run of
 * each phase over into the order of the files.
 *
 * `--repeat=N` runs the chosen tests N times on one cluster, or until one fails: `npm test -- e2e test/e2e/cloneset
 * --testNamePattern='rolls out' --repeat=50`.
 *
 * The last line is `N passed, N failed, N skipped` over all phases. Exits with 1 when something failed or when a phase
 * ran nothing. With WINDLASS_KEEP=1 the clusters of integration and e2e stay up for the next run.
 */

import { writeJson } from '../deploy/local/files.ts';
import { checks, root } from './check/all.ts';
import { runChecks } from './check/check.ts';
import { readProject } from './check/project.ts';
import type { Verdict } from './runner/again.ts';
import { runPhases } from './runner/command.ts';
import { jest } from './runner/jest-phase.ts';
import { describeLedger, readLedger } from './runner/ledger.ts';
import { orderFile } from './runner/longest-first.ts';
import { type Phase, untilInterrupted } from './runner/phase.ts';
import { platformPhases } from './runner/platform-phases.ts';
import { lastTimes } from './runner/times.ts';

const signal = untilInterrupted();

const phases: readonly Phase[] = [
  { name: 'check', about: 'what holds for the project as a whole', run: runProjectChecks },
  {
    name: 'unit',
    about: 'decisions, conversions, activities with fakes',
    run: jest({ name: 'unit', options: ['--maxWorkers=4'], signal }),
  },
  {
    name: 'replay',
    about: 'recorded histories on the code of today',
    run: jest({ name: 'replay', options: ['--runInBand'], signal }),
  },
  ...platformPhases({ prefix: 'test', groups: ['together', 'alone'], keep: process.env.WINDLASS_KEEP === '1', signal }),
];

async function runProjectChecks(): Promise<Verdict> {
  const results = await runChecks(checks, readProject(root), (line) => console.log(line));
  const failed = results.filter(({ problems }) => problems.length > 0).length;
  return { counts: { passed: results.length - failed, failed, skipped: 0 }, flakes: [] };
}

const [only, ...jestArgs] = process.argv.slice(2);
if (only === 'flaky') {
  for (const line of describeLedger(readLedger())) console.log(line);
  process.exit(0);
}
if (only === 'order') {
  writeJson(orderFile, lastTimes(root));
  process.exit(0);
}
const chosen = phases.filter(({ name }) => only === undefined || name === only);
if (chosen.length === 0) {
  console.error(`No phase "${only}": there are ${phases.map(({ name }) => name).join(', ')}, and flaky, order`);
  process.exit(2);
}
process.exit(await runPhases(chosen, jestArgs, signal));
