// The workflow ID of an operation: `<operation>/<namespace>/<name>/<UID>`, without a namespace for cluster-scoped objects.
// People read it in lists. Temporal allows one open run per ID, so the ID is the lock on the object. The UID alone identifies
// the object: its namespace and name never change.
//
// Release 0.1.0 had the IDs `<operation>/<UID>`. A run of it keeps its ID until it ends (docs/adr/0018).

/** The object of an operation. */
export interface OperationTarget {
  /** Absent or empty for cluster-scoped objects. */
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

/** The maximum length of an ID, and of a Keyword, where Temporal stores them in an SQL database. */
export const longestOperationId = 255;

/** The workflow ID of the operation of this workflow type on this object. A long name is cut: the UID tells objects apart. */
export function operationId(workflowType: string, { namespace = '', name, uid }: OperationTarget): string {
  const head = [kebabCase(workflowType), ...(namespace === '' ? [] : [namespace]), ''].join('/');
  const left = longestOperationId - head.length - uid.length - 1;
  return `${head}${name.slice(0, Math.max(left, 0))}/${uid}`;
}

/** What the operation holds alone, `<operation>/<UID>`: the same for all workflow IDs that it can have. */
export function operationLock(workflowType: string, uid: string): string {
  return `${kebabCase(workflowType)}/${uid}`;
}

/** The lock that a run with this workflow ID holds; the ID itself where it names no object. */
export function lockOf(workflowId: string): string {
  const [operation = '', ...rest] = workflowId.split('/');
  const uid = rest.at(-1);
  return uid === undefined ? operation : `${operation}/${uid}`;
}

/** The workflow ID under which a run of release 0.1.0 may hold the same lock; undefined: this is such an ID. */
export function earlierIdOf(workflowId: string): string | undefined {
  const earlier = lockOf(workflowId);
  return earlier === workflowId ? undefined : earlier;
}

function kebabCase(camelCase: string): string {
  return camelCase.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
