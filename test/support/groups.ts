// Which test files may run on a cluster at the same time. By default a file runs beside another file. A file whose
// tests stop or configure processes, nodes or registrations that all files share uses `describeAlone` instead of
// `describe`; one with tests of both kinds uses `describeTogether` for the others, and is run twice.
import { describe } from '@jest/globals';
import { type Group, groupVariable } from '../runner/groups.ts';

/** Absent: all run. */
const asked = process.env[groupVariable] as Group | undefined;

type Describe = (name: string, tests: () => void) => void;

/** Tests that must not run at the same time as another file. */
export const describeAlone: Describe = of('alone');

/** The other tests of a file with both kinds. */
export const describeTogether: Describe = of('together');

function of(group: Group): Describe {
  return (name, tests) => {
    if (asked === undefined || asked === group) describe(name, tests);
  };
}
