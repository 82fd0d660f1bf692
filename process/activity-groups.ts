/** The names that more than one group has. */
type Duplicates<Groups> = {
  [Name in keyof Groups]: Extract<
    keyof Groups[Name],
    { [Other in Exclude<keyof Groups, Name>]: keyof Groups[Other] }[Exclude<keyof Groups, Name>]
  >;
}[keyof Groups];

/** Accepts groups without common names; otherwise the compiler error contains the common name. */
type WithoutDuplicates<Groups> = [Duplicates<Groups>] extends [never]
  ? unknown
  : { readonly 'two groups have the same activity': Duplicates<Groups> };

type All<Group> = (Group extends unknown ? (group: Group) => void : never) extends (all: infer Everything) => void
  ? Everything
  : never;

/**
 * Merges groups of activities into one object, as a worker registers them. If two groups had an activity of the same
 * name, one would silently replace the other: the compiler rejects that, and so does the worker at its start.
 */
export function joinActivities<const Groups extends Readonly<Record<string, object>>>(
  groups: Groups & WithoutDuplicates<Groups>,
): All<Groups[keyof Groups]> {
  const groupOf = new Map<string, string>();
  const all: Record<string, unknown> = {};
  for (const [group, activities] of Object.entries<object>(groups)) {
    for (const [name, activity] of Object.entries(activities)) {
      const first = groupOf.get(name);
      if (first !== undefined) {
        throw new Error(`Cannot register activity "${name}": groups "${first}" and "${group}" both have it`);
      }
      groupOf.set(name, group);
      all[name] = activity;
    }
  }
  return all as All<Groups[keyof Groups]>;
}
