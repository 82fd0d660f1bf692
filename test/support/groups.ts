// Which test files may run on a cluster at the same time, and which run in `npm test`. By default a file runs beside another
// file. A file whose tests stop or configure processes, nodes or registrations that all files share uses `describeAlone`
// instead of `describe`; one that takes minutes or loads the machine uses `describeProof`. One with tests of several kinds uses
// `describeTogether` for those that may run beside others, and is run once for each kind.
import { describe } from '@jest/globals';
import { type Group, groupVariable, type Topic } from '../runner/groups.ts';

/** Absent: all run. */
const asked = process.env[groupVariable] as Group | undefined;

type Describe = (name: string, tests: () => void) => void;

/** Tests that must not run at the same time as another file. */
export const describeAlone: Describe = of('alone');

/** The other tests of a file with several kinds. */
export const describeTogether: Describe = of('together');

/** Tests of `npm run test:proof`. No other file runs on the cluster at the same time. */
export function describeProof(topic: Topic, name: string, tests: () => void): void {
  of(topic)(name, tests);
}

function of(group: Group): Describe {
  return (name, tests) => {
    if (asked === undefined || asked === group) describe(name, tests);
  };
}
