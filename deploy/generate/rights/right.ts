/** The rights of Windlass as data, from which `deploy/rbac` is generated. */

/** A process of Windlass that has a ServiceAccount of its own. */
export type RoleName = 'watcher' | 'webhook' | 'worker' | 'daemon';

/** One rule of a Role or a ClusterRole. */
export interface Right {
  /** What the role needs it for; the comment in the manifest. */
  readonly why: string;
  /** Absent: in every namespace, and for cluster-scoped resources. */
  readonly namespace?: string;
  /** Empty: the core group. */
  readonly group: string;
  readonly resources: readonly string[];
  /** Absent: objects of every name. */
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly Verb[];
}

type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';

/** The rights of each role for one kind or one concern. Absent: none. */
export type Rights = { readonly [Role in RoleName]?: readonly Right[] };
