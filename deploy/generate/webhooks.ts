import { installation } from '../../api/core/well-known.ts';
import { deletionOnlyKinds } from '../../api/deletion-protection.ts';
import { type KindName, kinds } from '../../api/kinds.ts';
import {
  conditionsOfKinds,
  deletionWebhook,
  type Explained,
  type KindWebhooks,
  type MatchCondition,
  podWebhook,
  type Webhook,
  webhooks,
} from '../../api/webhooks.ts';
import { explained, yamlOf } from './yaml.ts';

type WebhookType = keyof KindWebhooks;

/** The Service of admission, and all webhooks. */
export function webhooksFile(): string {
  return yamlOf([service, configurationOf('mutating'), configurationOf('validating')], {
    about,
    source: 'api/webhooks.ts and deploy/generate/webhooks.ts',
  });
}

const about =
  'What the API server asks Windlass, and how it finds it.\n\n' +
  'The webhook process writes `clientConfig`: whom to trust (caBundle, which therefore is not in this file, so that ' +
  'applying the file again leaves it as it is), and the URL where it runs outside of the cluster. All other fields belong ' +
  'to whoever installs the file: selectors, timeouts and failure policies may be changed and stay changed.';

const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: installation.webhookService, namespace: installation.namespace },
  spec: {
    selector: { 'app.kubernetes.io/name': 'windlass', 'app.kubernetes.io/component': 'webhook' },
    ports: [{ name: 'admission', port: 443, targetPort: 9876 }],
  },
};

function configurationOf(type: WebhookType): object {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    ...(type === 'mutating'
      ? { kind: 'MutatingWebhookConfiguration', metadata: { name: installation.mutatingWebhookConfiguration } }
      : { kind: 'ValidatingWebhookConfiguration', metadata: { name: installation.validatingWebhookConfiguration } }),
    webhooks: [
      ...(type === 'mutating' ? [podsWebhook()] : []),
      ...webhooksOfKinds(type),
      ...(type === 'validating' ? deletionWebhooks() : []),
    ],
  };
}

function webhooksOfKinds(type: WebhookType): readonly object[] {
  const mentioned = new Set<string>();
  return Object.entries(webhooks).flatMap(([kind, registered]) => {
    const ofKind: KindWebhooks = registered === 'none' ? {} : registered;
    const webhook = ofKind[type];
    return webhook === undefined ? [] : [webhookOf(kind as KindName, webhook, mentioned)];
  });
}

/** `mentioned`: the comments of conditions that are in the file already, so that each appears once. */
function webhookOf(kind: KindName, webhook: Webhook, mentioned: Set<string>): object {
  const { group, plural, scope, versions } = kinds[kind];
  const { name, path, operations = ['CREATE', 'UPDATE'], matchConditions = [], why } = webhook;
  const rule = {
    apiGroups: [group],
    apiVersions: versions.map((version) => version.name),
    resources: [plural],
    operations,
    scope,
  };
  return explained(
    {
      ...strict(name, path),
      rules: [rule],
      matchConditions: [...conditionsOfKinds, ...matchConditions].map((condition) => conditionOf(condition, mentioned)),
    },
    why,
  );
}

function conditionOf({ name, expression, why }: MatchCondition & Explained, mentioned: Set<string>): object {
  if (why === undefined || mentioned.has(why)) return { name, expression };
  mentioned.add(why);
  return explained({ name, expression }, why);
}

/** The settings of a webhook that must not be skipped. */
function strict(name: string, path: string): object {
  return {
    name,
    admissionReviewVersions: ['v1', 'v1beta1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    timeoutSeconds: 10,
    clientConfig: clientConfigOf(path),
  };
}

function clientConfigOf(path: string): object {
  const { webhookService: name, namespace } = installation;
  return { service: { name, namespace, path, port: 443 } };
}

function podsWebhook(): object {
  return explained(
    {
      ...strict(podWebhook.name, podWebhook.path),
      failurePolicy: 'Ignore',
      // Each pod of the cluster waits that long for a webhook process that hangs: a review needs no I/O.
      timeoutSeconds: 2,
      rules: [
        { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'], scope: 'Namespaced' },
      ],
      namespaceSelector: {
        matchExpressions: [
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', installation.namespace] },
          { key: 'control-plane', operator: 'NotIn', values: ['openkruise'] },
        ],
      },
    },
    'Every new pod, whatever selects it: only the webhook process knows the SidecarSets. It fails open: an ordinary pod is ' +
      'never kept from starting because admission does not answer. An Event on the pod then says that its containers start ' +
      'without order, and the policy in deploy/rbac-gates/PodWebhook.yaml refuses pods that lack their sidecars.',
  );
}

function deletionWebhooks(): readonly object[] {
  return deletionOnlyKinds
    .filter(({ registered }) => registered === 'always')
    .map((kind, index) => {
      const { name, admissionReviewVersions, sideEffects, failurePolicy, timeoutSeconds, ...rest } =
        deletionWebhook(kind);
      const webhook = {
        ...{ name, admissionReviewVersions, sideEffects, failurePolicy, timeoutSeconds },
        ...{ clientConfig: clientConfigOf(kind.path), ...rest },
      };
      return index === 0 ? explained(webhook, whyDeletions) : webhook;
    });
}

const whyDeletions =
  'Protection from deletion: only labelled objects are sent, so that nothing else waits for an answer. While feature gate ' +
  'ResourcesDeletionProtection is off, all of them may be deleted; while it is on, the webhook process adds ' +
  'vservice.kb.io and vingress.kb.io, which look the same.';
