/** What is done to one attempt of an activity, by an operator or a timeout. */
export const treatments = ['failed', 'null', 'wrong', 'timedOut'] as const;

export type Treatment = (typeof treatments)[number];

/** The UID of an operation's object, which encodes the treatment. */
export function treatedUid(activity: string, treatment: Treatment): string {
  return `${activity}--${treatment}`;
}

/** The treatment of the operation with this ID: the ID ends with the UID. */
export function treatmentOf(workflowId: string): { readonly activity: string; readonly treatment: string } {
  const [activity = '', treatment = ''] = workflowId.slice(workflowId.lastIndexOf('/') + 1).split('--');
  return { activity, treatment };
}
