import { installation } from './core/well-known.ts';
import { deleteProtectionLabel, type ProtectedKind, protectedKinds } from './deletion-protection.ts';
import type { PerKind } from './per-kind.ts';

/**
 * The webhooks as data: the manifest `deploy/webhooks/webhooks.yaml` is generated from it, and admission serves these
 * paths.
 */

export interface MatchCondition {
  readonly name: string;
  /** A CEL expression. */
  readonly expression: string;
}

/** A part of a manifest with a comment. */
export interface Explained {
  readonly why?: string;
}

/** One webhook of one of our kinds. Versions, resource and scope of its rule come from the definition of the kind. */
export interface Webhook extends Explained {
  readonly name: string;
  readonly path: string;
  /** Absent: CREATE and UPDATE. */
  readonly operations?: readonly ('CREATE' | 'UPDATE' | 'DELETE')[];
  /** In addition to those of every webhook of our kinds (`conditionsOfKinds`). */
  readonly matchConditions?: readonly (MatchCondition & Explained)[];
}

export interface KindWebhooks {
  readonly mutating?: Webhook;
  readonly validating?: Webhook;
}

const serviceAccount = (name: string) => `system:serviceaccount:${installation.namespace}:${name}`;
const watcher = serviceAccount('windlass-watcher');
const worker = serviceAccount('windlass-worker');

/** The webhooks of each kind, in the order in which a configuration lists them. Names and paths are OpenKruise's. */
export const webhooks = {
  ContainerRecreateRequest: {
    mutating: {
      name: 'mcontainerrecreaterequest.kb.io',
      path: '/mutate-apps-kruise-io-containerrecreaterequest',
      why: 'A request that admission has not filled in cannot be carried out: without an answer it is refused.',
    },
  },
  CloneSet: {
    mutating: {
      name: 'mcloneset.kb.io',
      path: '/mutate-apps-kruise-io-cloneset',
      matchConditions: [
        {
          name: 'not-the-watcher',
          expression: `request.userInfo.username != '${watcher}'`,
          why: 'It removes names from podsToDelete, and with defaults a write would change more than it may.',
        },
      ],
      why: 'A CloneSet that gets its defaults later gets a new revision by them: without an answer it is refused.',
    },
    validating: workloadValidation(protectedKinds.CloneSet),
  },
  PodProbeMarker: {
    validating: {
      name: 'vpodprobemarker.kb.io',
      path: '/validate-apps-kruise-io-podprobemarker',
      why: 'A marker that was not checked could write conditions that belong to others.',
    },
  },
  // Written by the watcher, and its status by daemons.
  NodePodProbe: 'none',
  ImagePullJob: {
    mutating: {
      name: 'mimagepulljob-v1beta1.kb.io',
      path: '/mutate-apps-kruise-io-imagepulljob',
      why: 'Jobs that pull images: defaults, what a schema cannot check, and the feature gate.',
    },
  },
  ImageListPullJob: {
    mutating: { name: 'mimagelistpulljob-v1beta1.kb.io', path: '/mutate-apps-kruise-io-imagelistpulljob' },
  },
  NodeImage: {
    mutating: {
      name: 'mnodeimage.kb.io',
      path: '/mutate-apps-kruise-io-nodeimage',
      matchConditions: [{ name: 'not-the-watcher', expression: `request.userInfo.username != '${watcher}'` }],
      why: 'NodeImages that people write. The watcher writes complete ones, and must not wait for an answer.',
    },
  },
  SidecarSet: {
    mutating: {
      name: 'msidecarset.kb.io',
      path: '/mutate-apps-kruise-io-sidecarset',
      why: 'Defaults are part of the hashes that pods carry: without an answer a SidecarSet is refused.',
    },
    validating: {
      name: 'vsidecarset.kb.io',
      path: '/validate-apps-kruise-io-sidecarset',
      why: 'A SidecarSet that was not checked could keep every pod that it selects from starting.',
    },
  },
  StatefulSet: {
    mutating: {
      name: 'mstatefulset.kb.io',
      path: '/mutate-apps-kruise-io-statefulset',
      why: 'A StatefulSet that gets its defaults later gets a new revision by them: without an answer it is refused.',
    },
    validating: workloadValidation(protectedKinds.AdvancedStatefulSet),
  },
  DaemonSet: {
    mutating: {
      name: 'mdaemonset.kb.io',
      path: '/mutate-apps-kruise-io-daemonset',
      why: 'A DaemonSet that gets its defaults later gets a new revision by them: without an answer it is refused.',
    },
    validating: {
      name: 'vdaemonset.kb.io',
      path: '/validate-apps-kruise-io-daemonset',
      why: 'A DaemonSet that was not checked could take every node out of service at once.',
    },
  },
} as const satisfies PerKind<KindWebhooks>;

/** The webhook that validates a kind of workload, deletions of protected objects included. */
function workloadValidation({ kind, webhook, path }: ProtectedKind): Webhook {
  return {
    name: webhook,
    path,
    operations: ['CREATE', 'UPDATE', 'DELETE'],
    matchConditions: [
      {
        name: 'protected-where-deleted',
        expression:
          "request.operation != 'DELETE' || " +
          `(has(oldObject.metadata.labels) && '${deleteProtectionLabel}' in oldObject.metadata.labels)`,
        why: `Only ${kind}s with the label are protected, so no other deletion waits for an answer.`,
      },
    ],
  };
}

/** Lets an object lose its finalizers while it is deleted. */
const notBeingDeleted: MatchCondition & Explained = {
  name: 'not-being-deleted',
  expression: 'oldObject == null || !has(oldObject.metadata.deletionTimestamp)',
  why:
    'An object that is being deleted only loses finalizers, which must not wait for an answer. The stored object ' +
    'decides: an object that is created by server-side apply may carry a deletionTimestamp that a user wrote.',
};

/** The match conditions with which every webhook of our kinds begins. */
export const conditionsOfKinds: readonly (MatchCondition & Explained)[] = [
  notBeingDeleted,
  {
    name: 'not-own-bookkeeping',
    expression:
      "request.operation != 'UPDATE' || object.spec != oldObject.spec || " +
      `!(request.userInfo.username in ['${watcher}', '${worker}'])`,
    why: 'Labels, annotations and finalizers of running operations must not wait for an answer either.',
  },
];

/** The webhook for new pods. */
export const podWebhook = { name: 'mpod.kb.io', path: '/mutate-pod' } as const;

/**
 * The match condition of the pod webhook in earlier versions, which the webhook process removes. Now every new pod is
 * sent: which pods a SidecarSet selects changes with each SidecarSet, and a registration that followed them would be late
 * for the first pod.
 */
export const formerPodCondition = {
  name: 'concerns-the-suite',
  beginning: '(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, ',
} as const;

/** The webhook of a kind that reviews deletions only, without its `clientConfig`. */
export function deletionWebhook({ webhook, group, versions, plural, scope }: ProtectedKind) {
  const { name, expression } = notBeingDeleted;
  return {
    name: webhook,
    admissionReviewVersions: ['v1', 'v1beta1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    timeoutSeconds: 10,
    rules: [{ apiGroups: [group], apiVersions: versions, resources: [plural], operations: ['DELETE'], scope }],
    // Deletions of other objects are not sent.
    objectSelector: { matchExpressions: [{ key: deleteProtectionLabel, operator: 'Exists' }] },
    matchConditions: [{ name, expression }],
  };
}
