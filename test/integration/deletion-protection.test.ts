import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { cloneSets, cloneSetsV1alpha1 } from '../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { deleteProtectionLabel as label, protectedKinds } from '../../api/deletion-protection.ts';
import { repository } from '../../deploy/local/instance.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import type { DeleteOptions, NameRef } from '../../kube/client.ts';
import { pathOf } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import type { WebhookConfiguration } from '../../webhook/server/registrations.ts';
import { servedBy } from '../support/cluster.ts';
import { describeAlone } from '../support/groups.ts';
import { waitFor } from '../support/wait.ts';
import { useWindlass } from './windlass.ts';

// Only admission runs, because it is what protects objects.
const windlass = useWindlass({ watcher: false, worker: false });

const protection = 'ResourcesDeletionProtection=true';
const both = `${protection},DeletionProtectionForCRDCascadingGate=true`;
const words = 'forbidden by ResourcesProtectionDeletion for';

const apps = (plural: string, kind: string): Resource => ({
  group: 'apps',
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});
const deployments = apps('deployments', 'Deployment');
const replicaSets = apps('replicasets', 'ReplicaSet');
const statefulSets = apps('statefulsets', 'StatefulSet');
const ingresses: Resource = {
  ...{ group: 'networking.k8s.io', version: 'v1', plural: 'ingresses', kind: 'Ingress', namespaced: true },
};
const volumes: Resource = {
  ...{ group: '', version: 'v1', plural: 'persistentvolumes', kind: 'PersistentVolume', namespaced: false },
};

beforeAll(async () => {
  await windlass().platform.install(both);
  await useGates(both);
});
/** Starts admission with these gates, and waits until the API server calls it accordingly. */
async function useGates(gates: string): Promise<void> {
  await windlass().restartWebhook([`--feature-gates=${gates}`]);
  const namespace = await windlass().cluster.newNamespace();
  const probes = [await newService(namespace, 'Always'), await newDeployment(namespace, 'Always', 0)];
  const isOn = gates.includes(protection);
  await waitFor(`deletions to be ${isOn ? 'refused' : 'allowed'}`, async (see) => {
    const answers = await Promise.all(probes.map(([resource, ref]) => tryToRemove(resource, ref, { dryRun: true })));
    return see(answers).every((answer) => (answer !== 'gone') === isOn);
  });
}

// ------------------------------------------------------------------------------------------------------------ builders

type Made = readonly [resource: Resource, ref: NameRef];

async function made(resource: Resource, namespace: string, value: string | undefined, rest: object): Promise<Made> {
  const name = `p-${randomUUID().slice(0, 8)}`;
  const labels = value === undefined ? { app: name } : { app: name, [label]: value };
  await windlass().cluster.kube.create(resource, { metadata: { namespace, name, labels }, ...rest });
  return [resource, { namespace, name }];
}

function workloadSpec(replicas: number, more: object = {}) {
  const labels = { app: 'w' };
  const containers = [{ name: 'app', image: 'busybox:1.36' }];
  const template = { metadata: { labels }, spec: { automountServiceAccountToken: false, containers } };
  return { spec: { replicas, selector: { matchLabels: labels }, template, ...more } };
}

const newDeployment = (namespace: string, value: string | undefined, replicas: number) =>
  made(deployments, namespace, value, workloadSpec(replicas));
const newService = (namespace: string, value: string | undefined) =>
  made(kubeResource.services, namespace, value, { spec: { ports: [{ port: 80 }] } });

const workloads: readonly (readonly [what: string, webhook: string, resource: Resource, more: object])[] = [
  ['Deployment', protectedKinds.Deployment.webhook, deployments, {}],
  ['StatefulSet', protectedKinds.StatefulSet.webhook, statefulSets, { serviceName: 'w' }],
  ['ReplicaSet', protectedKinds.ReplicaSet.webhook, replicaSets, {}],
  ['CloneSet in v1beta1', protectedKinds.CloneSet.webhook, cloneSets, {}],
  ['CloneSet in v1alpha1', protectedKinds.CloneSet.webhook, cloneSetsV1alpha1, {}],
];

/** The result of a deletion for a user: `gone`, or status and text. */
async function tryToRemove(resource: Resource, ref: NameRef, options: DeleteOptions = {}) {
  try {
    await windlass().cluster.kube.delete(resource, ref, options);
    return 'gone' as const;
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    return { status: error.status, reason: error.reason ?? '', message: error.message };
  }
}

function refusal(webhook: string, text: string) {
  return { status: 403, reason: '', message: `admission webhook "${webhook}" denied the request: ${text}` };
}

const patch = ([resource, ref]: Made, body: JsonObject, subresource?: string) =>
  windlass().cluster.kube.patch(resource, ref, 'merge', body, subresource === undefined ? {} : { subresource });
const relabel = (object: Made, value: string | null) => patch(object, { metadata: { labels: { [label]: value } } });
const find = ([resource, ref]: Made) => windlass().cluster.find<KubeObject>(resource, ref);

// --------------------------------------------------------------------------------------------------------------- tests

describeAlone('the deletion of a workload', () => {
  it.each(workloads)(
    'DP-1, DP-7, DP-8, DP-13: of a %s is refused while its label says so, also as a dry run (DP-6) and with orphans',
    async (_, webhook, resource, more) => {
      const namespace = await windlass().cluster.newNamespace();
      const object = await made(resource, namespace, 'Always', workloadSpec(0, more));
      const always = refusal(webhook, `${words} ${label}=Always`);
      expect(await tryToRemove(...object)).toEqual(always);
      expect(await tryToRemove(...object, { dryRun: true })).toEqual(always);
      expect(await tryToRemove(...object, { propagationPolicy: 'Orphan' })).toEqual(always);

      // There is no controller of CloneSets and no kubelet, so there are no active pods.
      await patch(object, { metadata: { labels: { [label]: 'Cascading' } }, spec: { replicas: 2 } });
      const cascading = refusal(webhook, `${words} ${label}=Cascading and replicas 2>0`);
      expect(await tryToRemove(...object)).toEqual(cascading);
      expect(await tryToRemove(...object, { propagationPolicy: 'Orphan', dryRun: true })).toEqual(cascading);

      await patch(object, { spec: { replicas: 0 } });
      expect(await tryToRemove(...object, { dryRun: true })).toBe('gone');
      expect(await tryToRemove(...object)).toBe('gone');
    },
  );

  it.each(workloads)(
    'DP-2, DP-3: of a %s that goes is let through, and so is what lets go of it',
    async (_, webhook, resource, more) => {
      const namespace = await windlass().cluster.newNamespace();
      const object = await made(resource, namespace, undefined, workloadSpec(0, more));
      await patch(object, { metadata: { finalizers: ['example.test/keep'] } });
      await relabel(object, 'Always');
      expect(await tryToRemove(...object)).toMatchObject({ message: expect.stringContaining(webhook) });
      await relabel(object, null);
      expect(await tryToRemove(...object)).toBe('gone');
      await relabel(object, 'Always');
      expect(await tryToRemove(...object)).toBe('gone');
      expect((await find(object))?.metadata.deletionTimestamp).toBeDefined();
      await patch(object, { metadata: { finalizers: null } });
      await waitFor('the object to go', async () => (await find(object)) === undefined);
    },
  );

  it('DP-1: of the sample is refused until it says otherwise', async () => {
    const namespace = await windlass().cluster.newNamespace();
    const file = ['-n', namespace, '-f', join(repository, 'deploy/samples/deletion-protection.yaml')];
    await kubectl(['apply', ...file]);
    await expect(kubectl(['delete', '--wait=false', ...file])).rejects.toThrow(
      /delete-protection=Cascading and replicas 1>0[\s\S]*delete-protection=Always/,
    );
    await kubectl(['scale', '-n', namespace, 'deployment/ledger', '--replicas=0']);
    await kubectl(['label', '-n', namespace, 'service/ledger', `${label}-`]);
    await kubectl(['delete', '--wait=false', ...file]);
  });

  it('DP-5: deletecollection is judged for each object', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    for (const [name, value] of Object.entries({ a: undefined, b: 'Always', c: 'always' })) {
      const labels = value === undefined ? {} : { [label]: value };
      await cluster.kube.create(deployments, { metadata: { namespace, name, labels }, ...workloadSpec(0) });
    }
    const all = pathOf(deployments, { namespace });
    await expect(cluster.kube.request('DELETE', all)).rejects.toMatchObject({
      status: 403,
      message: refusal(protectedKinds.Deployment.webhook, `${words} ${label}=Always`).message,
    });
    // The API server deletes them by name, and may stop at the first rejection.
    expect(await cluster.find(deployments, { namespace, name: 'a' })).toBeUndefined();
    expect(await cluster.find(deployments, { namespace, name: 'b' })).toBeDefined();
    await cluster.kube.request('DELETE', all, { query: { labelSelector: `${label}!=Always` } });
    expect(await cluster.find(deployments, { namespace, name: 'c' })).toBeUndefined();
  });

  it('DP-4: the garbage collector is refused as everybody is, and the log says so', async () => {
    const { cluster, platform } = windlass();
    const namespace = await cluster.newNamespace();
    const deployment = await newDeployment(namespace, undefined, 0);
    const replicaSet = await waitFor('the ReplicaSet', async () => {
      const { items } = await cluster.kube.list<KubeObject>(replicaSets, { namespace });
      return items[0];
    });
    const child: Made = [replicaSets, { namespace, name: replicaSet.metadata.name }];
    await relabel(child, 'Always');
    // Only the label of the object itself counts.
    expect(await tryToRemove(...deployment)).toBe('gone');
    const line = await waitFor('the collector to be refused', () =>
      readFileSync(join(platform.logs, 'test-webhook.log'), 'utf8')
        .split('\n')
        .filter((text) => text.includes('"event":"DeletionProtection"') && text.includes(replicaSet.metadata.name))
        .map((text) => JSON.parse(text) as object)
        .at(-1),
    );
    expect(line).toMatchObject({
      level: 'info',
      event: 'DeletionProtection',
      kind: 'ReplicaSet',
      namespace,
      name: replicaSet.metadata.name,
      username: 'system:serviceaccount:kube-system:generic-garbage-collector',
      reason: 'Always',
      dryRun: false,
    });
    expect(await find(deployment)).toBeUndefined();
    expect(await find(child)).toBeDefined();
    await relabel(child, null);
    await waitFor('the ReplicaSet to be collected', async () => (await find(child)) === undefined);
  });
});

describeAlone('the deletion of a Service or Ingress', () => {
  const ingress = { spec: { defaultBackend: { service: { name: 'web', port: { number: 80 } } } } };

  it.each([
    ['Service', protectedKinds.Service.webhook, kubeResource.services, { spec: { ports: [{ port: 80 }] } }],
    ['Ingress', protectedKinds.Ingress.webhook, ingresses, ingress],
  ])(
    'DP-3, DP-6, DP-13: of a %s is refused with Always, and never with Cascading',
    async (_, webhook, resource, rest) => {
      const namespace = await windlass().cluster.newNamespace();
      const object = await made(resource, namespace, 'Always', rest);
      const always = refusal(webhook, `${words} ${label}=Always`);
      expect(await tryToRemove(...object)).toEqual(always);
      expect(await tryToRemove(...object, { dryRun: true })).toEqual(always);
      await relabel(object, 'Cascading');
      await patch(object, { metadata: { finalizers: ['example.test/keep'] } });
      expect(await tryToRemove(...object)).toBe('gone');
      await relabel(object, 'Always');
      expect(await tryToRemove(...object)).toBe('gone');
      await patch(object, { metadata: { finalizers: null } });
      expect(await find(object)).toBeUndefined();
    },
  );
});

describeAlone('the deletion of a Namespace', () => {
  const { webhook } = protectedKinds.Namespace;

  it('DP-9, DP-10: is refused while it has active Pods or Bound claims, by what is there in that moment', async () => {
    const { cluster } = windlass();
    const namespace = await cluster.newNamespace();
    const object: Made = [kubeResource.namespaces, { name: namespace }];
    await relabel(object, 'Always');
    expect(await tryToRemove(...object)).toEqual(refusal(webhook, `${words} ${label}=Always`));
    await relabel(object, 'Cascading');

    const spec = {
      schedulerName: 'nobody',
      automountServiceAccountToken: false,
      containers: [{ name: 'app', image: 'busybox:1.36' }],
    };
    const pods = await Promise.all([0, 1, 2].map(() => made(kubeResource.pods, namespace, undefined, { spec })));
    const volume = await bindClaim(namespace);
    const active = (count: number) => refusal(webhook, `${words} ${label}=Cascading and active pods ${count}>0`);
    expect(await tryToRemove(...object)).toEqual(active(3));
    expect(await tryToRemove(...object, { dryRun: true })).toEqual(active(3));

    const [first, second, third] = pods;
    if (!first || !second || !third) throw new Error('no pods');
    await patch(first, { status: { phase: 'Succeeded' } }, 'status');
    expect(await tryToRemove(...object)).toEqual(active(2));
    await patch(second, { metadata: { finalizers: ['example.test/keep'] } });
    expect(await tryToRemove(...second)).toBe('gone');
    expect((await find(second))?.metadata.deletionTimestamp).toBeDefined();
    expect(await tryToRemove(...object)).toEqual(active(1));
    await patch(third, { status: { phase: 'Failed' } }, 'status');

    const [claim, pending]: readonly (Made | undefined)[] = (
      await cluster.kube.list<KubeObject>(kubeResource.persistentVolumeClaims, { namespace })
    ).items.map(({ metadata }): Made => [kubeResource.persistentVolumeClaims, { namespace, name: metadata.name }]);
    if (!claim || pending) throw new Error('not one claim');
    const bound = refusal(webhook, `${words} ${label}=Cascading and "Bound" status pvc 1>0`);
    expect(await tryToRemove(...object)).toEqual(bound);
    await patch(claim, { metadata: { finalizers: ['example.test/keep'] } });
    expect(await tryToRemove(...claim)).toBe('gone');
    expect((await find(claim))?.metadata.deletionTimestamp).toBeDefined();

    expect(await tryToRemove(...object)).toBe('gone');
    // DP-3: a second deletion, and what the namespace controller does.
    await relabel(object, 'Always');
    const again = await tryToRemove(...object);
    expect(again === 'gone' || again.status).not.toBe(403);
    await Promise.all([second, claim].map((held) => patch(held, { metadata: { finalizers: null } })));
    await waitFor('the namespace to go', async () => (await find(object)) === undefined);
    await cluster.kube.delete(...volume);
  });

  /** Creates a PVC and its volume, waits until the controller has bound them, and returns the volume. */
  async function bindClaim(namespace: string): Promise<Made> {
    const { cluster } = windlass();
    const name = `claim-${randomUUID().slice(0, 8)}`;
    const common = { accessModes: ['ReadWriteOnce'], storageClassName: '' };
    await cluster.kube.create(volumes, {
      metadata: { name },
      spec: {
        ...common,
        capacity: { storage: '1Mi' },
        claimRef: { namespace, name },
        hostPath: { path: `/nowhere/${name}` },
      },
    });
    const claims = kubeResource.persistentVolumeClaims;
    const resources = { requests: { storage: '1Mi' } };
    await cluster.kube.create(claims, {
      metadata: { namespace, name },
      spec: { ...common, resources, volumeName: name },
    });
    await waitFor('the claim to be bound', async (see) => {
      const { status } = await cluster.kube.get<KubeObject & { status?: { phase?: string } }>(claims, {
        namespace,
        name,
      });
      return see(status)?.phase === 'Bound';
    });
    return [volumes, { name }];
  }
});

describeAlone('the deletion of a CustomResourceDefinition', () => {
  const { webhook } = protectedKinds.CustomResourceDefinition;
  const definitions = kubeResource.customResourceDefinitions;

  /** A CRD of this test alone, with one object in each of two namespaces. */
  async function newKind(value: string): Promise<{ readonly definition: Made; readonly objects: readonly Made[] }> {
    const { cluster } = windlass();
    const group = `g${randomUUID().slice(0, 8)}.example.test`;
    const resource: Resource = { group, version: 'v2', plural: 'widgets', kind: 'Widget', namespaced: true };
    const name = `widgets.${group}`;
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    await cluster.kube.create(definitions, {
      metadata: { name, labels: { [label]: value } },
      spec: {
        group,
        scope: 'Namespaced',
        names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
        versions: [
          { name: 'v1', served: true, storage: false, schema },
          { name: 'v2', served: true, storage: true, schema },
        ],
      },
    });
    await servedBy(cluster, resource);
    const namespaces = await Promise.all([cluster.newNamespace(), cluster.newNamespace()]);
    const objects = await Promise.all(namespaces.map((namespace) => made(resource, namespace, undefined, {})));
    return { definition: [definitions, { name }], objects };
  }

  async function removed(definition: Made): Promise<void> {
    await relabel(definition, null);
    await windlass().cluster.kube.delete(...definition);
  }

  it('DP-11: is refused while it has objects anywhere, and allowed right after the last', async () => {
    const { definition, objects } = await newKind('Always');
    expect(await tryToRemove(...definition)).toEqual(refusal(webhook, `${words} ${label}=Always`));
    await relabel(definition, 'Cascading');
    const active = (count: number) => refusal(webhook, `${words} ${label}=Cascading and active CRs ${count}>0`);
    expect(await tryToRemove(...definition)).toEqual(active(2));
    const [first, last] = objects;
    if (!first || !last) throw new Error('no objects');
    expect(await tryToRemove(...first)).toBe('gone');
    expect(await tryToRemove(...definition, { dryRun: true })).toEqual(active(1));
    // An object that is being deleted does not count, even if its finalizer still holds it.
    await patch(last, { metadata: { finalizers: ['example.test/keep'] } });
    expect(await tryToRemove(...last)).toBe('gone');
    expect(await tryToRemove(...definition)).toBe('gone');
    // DP-3
    await relabel(definition, 'Always');
    expect(await tryToRemove(...definition)).toBe('gone');
    await patch(last, { metadata: { finalizers: null } });
    await waitFor('the definition to go', async () => (await find(definition)) === undefined);
  });

  it('DP-11a: is refused with the error of the list while the right to it is missing, and judged once that is granted', async () => {
    const { platform } = windlass();
    const { definition } = await newKind('Cascading');
    await platform.install(protection);
    const text = await waitFor('the right to be gone', async (see) => {
      const answer = see(await tryToRemove(...definition));
      return answer !== 'gone' && answer.message.includes('failed to list CRs of') && answer.message;
    });
    expect(text).toMatch(
      new RegExp(
        `^admission webhook "${webhook}" denied the request: failed to list CRs of g\\w+\\.example\\.test/v2, Kind=WidgetList: ` +
          `.*windlass-webhook.* cannot (get|list) resource`,
      ),
    );

    await platform.install(both);
    const active = refusal(webhook, `${words} ${label}=Cascading and active CRs 2>0`);
    await waitFor('the right to be there again', async (see) => {
      const answer = see(await tryToRemove(...definition));
      return answer !== 'gone' && answer.message === active.message;
    });
    await removed(definition);
  });

  it('DP-12: with Cascading is always refused while its gate is off', async () => {
    await useGates(protection);
    const { definition } = await newKind('Cascading');
    const off = refusal(webhook, 'feature-gate DeletionProtectionForCRDCascadingGate is not enabled');
    expect(await tryToRemove(...definition)).toEqual(off);
    await removed(definition);
  });
});

describeAlone('the label while the gate is off', () => {
  // Reverts what the gates have added, so that the next file finds the state of the manifests.
  afterAll(async () => {
    await windlass().restartWebhook([]);
    await windlass().platform.install();
  });

  it('is ignored with a warning, and Services and Ingresses have no webhook', async () => {
    const { cluster } = windlass();
    const registered = async () => {
      const name = 'kruise-validating-webhook-configuration';
      const resource = kubeResource.validatingWebhookConfigurations;
      const { webhooks = [] } = await cluster.kube.get<WebhookConfiguration>(resource, { name });
      return webhooks.map((webhook) => webhook.name);
    };
    expect(await registered()).toEqual(expect.arrayContaining(['vservice.kb.io', 'vingress.kb.io']));
    await useGates('PodWebhook=false');
    expect(await registered()).not.toEqual(expect.arrayContaining(['vservice.kb.io']));
    expect(await registered()).not.toEqual(expect.arrayContaining(['vingress.kb.io']));

    const namespace = await cluster.newNamespace();
    const [, { name }] = await newDeployment(namespace, 'Always', 1);
    const said = await kubectl(['delete', 'deployment', '-n', namespace, name]);
    expect(said).toContain(
      `Warning: metadata.labels[${label}]: "Always" gives no protection from deletion: ` +
        'feature gate ResourcesDeletionProtection is off',
    );
    expect(await tryToRemove(...(await newService(namespace, 'Always')))).toBe('gone');
  });
});

/** kubectl's standard error. */
function kubectl(args: readonly string[]): Promise<string> {
  const env = { ...process.env, KUBECONFIG: windlass().platform.kubeconfig };
  return new Promise((resolve, reject) => {
    execFile(toolPath('kubectl'), args, { env }, (error, _, stderr) => (error ? reject(error) : resolve(stderr)));
  });
}
