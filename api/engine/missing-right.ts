/** A missing right, from the API server's message when it refuses a call for it. */
export interface MissingRight {
  /** `system:serviceaccount:kruise-system:windlass-worker` */
  readonly user: string;
  readonly verb: string;
  /** With its subresource: `pods/status`. */
  readonly resource: string;
  /** Empty for the core group. */
  readonly group: string;
  /** Absent: at the cluster scope. */
  readonly namespace?: string;
}

// The authorizer's message; what follows it, such as "RBAC: role not found", is a remark.
const refusal =
  /\bUser "([^"]+)" cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?/;

/** The missing right in a refusal; undefined when the refusal has another reason. */
export function missingRight(message: string): MissingRight | undefined {
  const [, user = '', verb = '', resource = '', group = '', namespace] = refusal.exec(message) ?? [];
  return user === '' ? undefined : { user, verb, resource, group, ...(namespace !== undefined && { namespace }) };
}

/** What a person has to grant; undefined when no right is missing. */
export function grantFor(message: string): string | undefined {
  const right = missingRight(message);
  if (right === undefined) return undefined;
  const { verb, group, namespace } = right;
  const resource = group === '' ? right.resource : `${right.resource} of ${group}`;
  const where = namespace === undefined ? 'in the whole cluster' : `in namespace "${namespace}"`;
  return `Allow ${nameOf(right.user)} to ${verb} ${resource} ${where}, by a role bound to it (deploy/rbac has those of Windlass)`;
}

/** The refusal, preceded by what has to be granted if a right is missing. */
export function withGrant(message: string): string {
  const grant = grantFor(message);
  return grant === undefined ? message : `${grant}; ${message}`;
}

function nameOf(user: string): string {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  return name === undefined ? `user "${user}"` : `ServiceAccount "${namespace}/${name}"`;
}
