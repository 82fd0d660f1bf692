// In which company the tests of a file run on a cluster. A file that says nothing is run beside another file. One whose tests end or configure processes, nodes or registrations that all files share uses `describeAlone`
// instead of `describe`; one with tests of both kinds uses `describeTogether` for the others, and is run twice.
import { describe } from '@jest/globals';
import { type Group, groupVariable } from '../runner/groups.ts';

/** Absent: nobody has divided them, so that all run. */
const asked = process.env[groupVariable] as Group | undefined;

type Describe = (name: string, tests: () => void) => void;

/** Tests that no other file may run beside. */
export const describeAlone: Describe = of('alone');

/** The other tests of a file that has such ones. */
export const describeTogether: Describe = of('together');

function of(group: Group): Describe {
  return (name, tests) => {
    if (asked === undefined || asked === group) describe(name, tests);
  };
}
