/** A condition, in Kubernetes' standard format. */
export interface Condition {
  readonly type: string;
  readonly status: ConditionStatus;
  /** CamelCase, from the closed list of the kind. */
  readonly reason: string;
  /** For people; also says how to unblock, where somebody can. */
  readonly message: string;
  /** RFC 3339 in UTC, when `status` last changed. */
  readonly lastTransitionTime: string;
  /** The generation of the object that the condition is about. */
  readonly observedGeneration?: number;
}

export type ConditionStatus = 'True' | 'False' | 'Unknown';

/** How an operation ended. An object has at most one of them with status True, and it stays. */
export const endCondition = { complete: 'Complete', failed: 'Failed' } as const;

/** How an object ended, by its condition. */
export interface ObjectEnd {
  readonly type: 'Complete' | 'Failed';
  readonly reason: string;
  readonly message: string;
}

/** How the object with these conditions ended; undefined if it has not. */
export function endIn(conditions: readonly Condition[] | undefined): ObjectEnd | undefined {
  for (const type of Object.values(endCondition)) {
    const condition = findCondition(conditions, type);
    if (condition?.status === 'True') return { type, reason: condition.reason, message: condition.message };
  }
  return undefined;
}

/** The condition of this type, or undefined if there is none. */
export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether the condition of this type is True; absent counts as not. */
export function isTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === 'True';
}

/**
 * The list with this condition set. It keeps its position, and its transition time while the status is unchanged; if
 * nothing changes, the same list is returned.
 */
export function withCondition(
  conditions: readonly Condition[] | undefined,
  wanted: Omit<Condition, 'lastTransitionTime'>,
  now: string,
): readonly Condition[] {
  const before = findCondition(conditions, wanted.type);
  if (conditions === undefined || before === undefined) {
    return [...(conditions ?? []), { ...wanted, lastTransitionTime: now }];
  }

  const lastTransitionTime = before.status === wanted.status ? before.lastTransitionTime : now;
  const after: Condition = { ...wanted, lastTransitionTime };
  if (says(before, after)) return conditions;
  return conditions.map((condition) => (condition === before ? after : condition));
}

function says(left: Condition, right: Condition): boolean {
  return (
    left.status === right.status &&
    left.reason === right.reason &&
    left.message === right.message &&
    left.observedGeneration === right.observedGeneration &&
    left.lastTransitionTime === right.lastTransitionTime
  );
}
