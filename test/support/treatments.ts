/** What is done to one attempt of an activity, as an operator or the passing of time may do it. */
export const treatments = ['failed', 'null', 'wrong', 'timedOut'] as const;

export type Treatment = (typeof treatments)[number];

/** The UID of what an operation is about, which says how it is treated. */
export function treatedUid(activity: string, treatment: Treatment): string {
  return `${activity}--${treatment}`;
}

/** How the operation of this ID is treated: its ID ends with the UID. */
export function treatmentOf(workflowId: string): { readonly activity: string; readonly treatment: string } {
  const [activity = '', treatment = ''] = workflowId.slice(workflowId.indexOf('/') + 1).split('--');
  return { activity, treatment };
}
