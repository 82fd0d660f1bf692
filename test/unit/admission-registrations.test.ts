import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { applyPatch } from 'rfc6902';
import { parseAllDocuments } from 'yaml';
import { kubeResource } from '../../api/core/well-known.ts';
import { deletionOnlyKinds, protectedKinds } from '../../api/deletion-protection.ts';
import { deletionWebhook, formerPodCondition } from '../../api/webhooks.ts';
import { KubeError } from '../../kube/failures.ts';
import {
  type CustomResourceDefinition,
  configurationPatch,
  definitionPatch,
  type Registration,
  type RegistrationWish,
  registeredPaths,
  syncRegistrations,
  type WebhookConfiguration,
} from '../../webhook/server/registrations.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';

const manifest = parseAllDocuments(readFileSync('deploy/webhooks/webhooks.yaml', 'utf8')).map(
  (document) => document.toJS() as { kind: string } & Record<string, unknown>,
);
const shipped = manifest.find(({ kind }) => kind === 'MutatingWebhookConfiguration') as unknown as WebhookConfiguration;
const validating = manifest.find(
  ({ kind }) => kind === 'ValidatingWebhookConfiguration',
) as unknown as WebhookConfiguration;
const bundle = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
const caBundle = Buffer.from(bundle).toString('base64');
const byService: RegistrationWish = {
  address: { kind: 'service', name: 'kruise-webhook-service', namespace: 'kruise-system' },
  bundle,
};
const former = { name: formerPodCondition.name, expression: `${formerPodCondition.beginning}has(owner.uid)))` };
const byUrl: RegistrationWish = { ...byService, address: { kind: 'url', host: '10.88.0.1', port: 9876 } };
const signal = new AbortController().signal;

function patched(configuration: WebhookConfiguration, wish: RegistrationWish): WebhookConfiguration {
  const result = structuredClone(configuration);
  expect(applyPatch(result, configurationPatch(configuration, wish)).every((failure) => failure === null)).toBe(true);
  return result;
}

function definition(conversion: CustomResourceDefinition['spec']['conversion']): CustomResourceDefinition {
  const metadata = {
    name: 'containerrecreaterequests.apps.kruise.io',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
  };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata,
    spec: conversion === undefined ? {} : { conversion },
  };
}

describe('registrations', () => {
  it('FG-8, FG-9: the manifests keep the names and paths, and fail open for pods', () => {
    const pulls = ['mimagepulljob-v1beta1.kb.io', 'mimagelistpulljob-v1beta1.kb.io', 'mnodeimage.kb.io'];
    const names = [
      'mpod.kb.io',
      'mcontainerrecreaterequest.kb.io',
      'mcloneset.kb.io',
      ...pulls,
      'msidecarset.kb.io',
      'mstatefulset.kb.io',
      'mdaemonset.kb.io',
    ];
    expect(shipped.webhooks?.map(({ name }) => name)).toEqual(names);
    expect(registeredPaths(shipped)).toEqual([
      '/mutate-pod',
      '/mutate-apps-kruise-io-containerrecreaterequest',
      '/mutate-apps-kruise-io-cloneset',
      '/mutate-apps-kruise-io-imagepulljob',
      '/mutate-apps-kruise-io-imagelistpulljob',
      '/mutate-apps-kruise-io-nodeimage',
      '/mutate-apps-kruise-io-sidecarset',
      '/mutate-apps-kruise-io-statefulset',
      '/mutate-apps-kruise-io-daemonset',
    ]);
    const deletions = deletionOnlyKinds.filter(({ registered }) => registered === 'always');
    expect(validating.webhooks?.map(({ name }) => name)).toEqual([
      ...['vcloneset.kb.io', 'vpodprobemarker.kb.io', 'vsidecarset.kb.io', 'vstatefulset.kb.io', 'vdaemonset.kb.io'],
      ...['vnamespace.kb.io', 'vcustomresourcedefinition.kb.io'],
      ...['vbuiltindeployment.kb.io', 'vbuiltinstatefulset.kb.io', 'vbuiltinreplicaset.kb.io'],
    ]);
    const deletionPaths = deletions.map(({ path }) => path);
    expect(registeredPaths(validating)).toEqual([
      '/validate-apps-kruise-io-cloneset',
      '/validate-apps-kruise-io-podprobemarker',
      '/validate-apps-kruise-io-sidecarset',
      '/validate-apps-kruise-io-statefulset',
      '/validate-apps-kruise-io-daemonset',
      ...deletionPaths,
    ]);
    expect(shipped.webhooks?.[0]).toMatchObject({ failurePolicy: 'Ignore', timeoutSeconds: 2 });
    // Which pods are sent does not depend on SidecarSets.
    expect(shipped.webhooks?.[0]).not.toHaveProperty('matchConditions');
    for (const strict of [...(shipped.webhooks?.slice(1) ?? []), ...(validating.webhooks ?? [])]) {
      expect(strict).toMatchObject({ failurePolicy: 'Fail', timeoutSeconds: 10 });
    }
    expect(JSON.stringify(manifest)).not.toContain('caBundle');
  });

  it('L2, M8: every webhook of a kind of ours lets through what is deleted, and what the suite writes beside the spec', () => {
    const names = deletionOnlyKinds.map(({ webhook }) => webhook);
    const all = [...(shipped.webhooks ?? []).slice(1), ...(validating.webhooks ?? [])];
    // Webhooks that review deletions only see no updates; each is compared as a whole below.
    const ofKinds = all.filter(({ name }) => !names.includes(name));
    expect(ofKinds.length).toBeGreaterThan(6);
    for (const { name, matchConditions = [] } of ofKinds) {
      const expressions = Object.fromEntries(
        matchConditions.map((condition) => [condition.name, condition.expression]),
      );
      expect([name, expressions['not-being-deleted']]).toEqual([
        name,
        expect.stringContaining('oldObject == null || !has(oldObject.metadata.deletionTimestamp)'),
      ]);
      expect([name, expressions['not-own-bookkeeping']]).toEqual([
        name,
        "request.operation != 'UPDATE' || object.spec != oldObject.spec || " +
          "!(request.userInfo.username in ['system:serviceaccount:kruise-system:windlass-watcher', " +
          "'system:serviceaccount:kruise-system:windlass-worker'])",
      ]);
    }
  });

  it('CS-36: no default is added to a CloneSet when the watcher removes names from podsToDelete', () => {
    const { matchConditions } = shipped.webhooks?.find(({ name }) => name === 'mcloneset.kb.io') ?? {};
    expect(matchConditions).toContainEqual({
      name: 'not-the-watcher',
      expression: "request.userInfo.username != 'system:serviceaccount:kruise-system:windlass-watcher'",
    });
  });

  it('FG-20: writes caBundle and leaves every other field as it was', () => {
    const changed = patched(shipped, byService);
    expect(changed.webhooks?.map(({ clientConfig }) => clientConfig.caBundle)).toEqual(
      shipped.webhooks?.map(() => caBundle),
    );
    const without = (configuration: WebhookConfiguration) =>
      JSON.parse(JSON.stringify(configuration, (key, value) => (key === 'caBundle' ? undefined : value)));
    expect(without(changed)).toEqual(without(shipped));
    expect(configurationPatch(changed, byService)).toEqual([]);
  });

  it('writes only clientConfig, whatever an administrator has changed beside it', () => {
    const [first, second] = shipped.webhooks ?? [];
    if (!first || !second) throw new Error('no webhooks');
    const edited = {
      ...shipped,
      webhooks: [
        { ...first, failurePolicy: 'Fail', namespaceSelector: { matchLabels: { a: 'b' } }, timeoutSeconds: 1 },
        second,
      ],
    } as unknown as WebhookConfiguration;
    const paths = configurationPatch(edited, byService).map(({ op, path }) => `${op} ${path}`);
    expect(paths).toEqual([
      'test /webhooks/0/name',
      'replace /webhooks/0/clientConfig',
      'test /webhooks/1/name',
      'replace /webhooks/1/clientConfig',
    ]);
  });

  it('FG-14: with a host the API server is sent to a URL with the same path, and back to the Service without', () => {
    const away = patched(shipped, byUrl);
    expect(away.webhooks?.slice(0, 3).map(({ clientConfig }) => clientConfig)).toEqual([
      { url: 'https://10.88.0.1:9876/mutate-pod', caBundle },
      { url: 'https://10.88.0.1:9876/mutate-apps-kruise-io-containerrecreaterequest', caBundle },
      { url: 'https://10.88.0.1:9876/mutate-apps-kruise-io-cloneset', caBundle },
    ]);
    const back = patched(away, byService);
    expect(back.webhooks?.[0]?.clientConfig).toEqual({
      service: { name: 'kruise-webhook-service', namespace: 'kruise-system', path: '/mutate-pod', port: 443 },
      caBundle,
    });
  });

  it('puts IPv6 addresses into brackets', () => {
    const wish: RegistrationWish = { ...byUrl, address: { kind: 'url', host: 'fd00::1', port: 9876 } };
    expect(patched(shipped, wish).webhooks?.[0]?.clientConfig.url).toBe('https://[fd00::1]:9876/mutate-pod');
  });

  it('takes away the condition by which earlier versions limited the pod webhook', () => {
    const [first, second] = shipped.webhooks ?? [];
    if (!first || !second) throw new Error('no webhooks');
    const mine = { name: 'mine', expression: 'true' };
    const edited = { ...shipped, webhooks: [{ ...first, matchConditions: [mine, former] }, second] };
    const after = patched(edited, byService);
    expect(after.webhooks?.[0]?.matchConditions).toEqual([mine]);
    expect(configurationPatch(after, byService)).toEqual([]);
  });

  it('leaves a condition alone that somebody else has put in the place of ours', () => {
    const [first, ...others] = shipped.webhooks ?? [];
    if (!first) throw new Error('no webhooks');
    const theirs = { ...former, expression: 'object.metadata.name != "x"' };
    const edited = { ...shipped, webhooks: [{ ...first, matchConditions: [theirs] }, ...others] };
    expect(patched(edited, byService).webhooks?.[0]?.matchConditions).toEqual([theirs]);
  });

  it('FG-20: tells the CRD where to convert, unless it does not convert by webhook', () => {
    const service = { name: 'kruise-webhook-service', namespace: 'kruise-system', path: '/convert', port: 443 };
    const conversion = {
      strategy: 'Webhook',
      webhook: { clientConfig: { service }, conversionReviewVersions: ['v1'] },
    };
    const crd = definition(conversion);
    applyPatch(crd, definitionPatch(crd, byUrl));
    expect(crd.spec.conversion?.webhook).toEqual({
      clientConfig: { url: 'https://10.88.0.1:9876/convert', caBundle },
      conversionReviewVersions: ['v1'],
    });
    expect(definitionPatch(crd, byUrl)).toEqual([]);
    expect(definitionPatch(definition({ strategy: 'None' }), byUrl)).toEqual([]);
    expect(definitionPatch(definition(undefined), byUrl)).toEqual([]);
  });
});

describe('the webhooks of deletion protection', () => {
  const on: RegistrationWish = { ...byService, deletionProtection: true };
  const namesOf = ({ webhooks = [] }: WebhookConfiguration) => webhooks.map(({ name }) => name);

  it.each(deletionOnlyKinds.filter(({ registered }) => registered === 'always'))(
    'DP-1, DP-3: $webhook is asked about deletions of labelled objects that are not being deleted yet, and about nothing else',
    (kind) => {
      const { clientConfig, ...rest } = validating.webhooks?.find(({ name }) => name === kind.webhook) ?? {};
      expect(rest).toEqual(deletionWebhook(kind));
      expect(clientConfig?.service?.path).toBe(kind.path);
      expect(rest).toMatchObject({
        failurePolicy: 'Fail',
        rules: [{ operations: ['DELETE'], resources: [expect.not.stringContaining('/')] }],
        objectSelector: { matchExpressions: [{ key: 'policy.kruise.io/delete-protection', operator: 'Exists' }] },
      });
    },
  );

  it('those of Service and Ingress are added with the gate, once, and taken away without it', () => {
    const added = patched(validating, on);
    expect(namesOf(added)).toEqual([...namesOf(validating), 'vservice.kb.io', 'vingress.kb.io']);
    expect(added.webhooks?.at(-1)).toEqual({
      ...deletionWebhook(protectedKinds.Ingress),
      clientConfig: {
        service: { name: 'kruise-webhook-service', namespace: 'kruise-system', path: '/validate-ingress', port: 443 },
        caBundle,
      },
    });
    expect(configurationPatch(added, on)).toEqual([]);
    expect(namesOf(patched(added, byService))).toEqual(namesOf(validating));
    expect(namesOf(patched(shipped, on))).toEqual(namesOf(shipped));
  });

  it('those of Service and Ingress are removed wherever they stand, and the others still written', () => {
    const [first, ...others] = patched(validating, on).webhooks ?? [];
    if (!first) throw new Error('no webhooks');
    const mixed = { ...validating, webhooks: [...others.slice(-2), first, ...others.slice(0, -2)] };
    const away = patched(mixed, byUrl);
    expect(namesOf(away)).toEqual(namesOf(validating));
    expect(away.webhooks?.every(({ clientConfig }) => clientConfig.url?.startsWith('https://10.88.0.1:9876/'))).toBe(
      true,
    );
  });

  it('what an administrator has changed of those of Service and Ingress stays', () => {
    const added = patched(validating, on);
    const webhooks = added.webhooks?.map((webhook) => ({ ...webhook, timeoutSeconds: 3 }));
    expect(configurationPatch({ ...added, ...(webhooks && { webhooks }) }, on)).toEqual([]);
  });

  it('FG-22: with external certificates it is an error that those of Service and Ingress are missing', async () => {
    const pass = (configuration: WebhookConfiguration) => {
      const resource = kubeResource.validatingWebhookConfigurations;
      const registrations = [
        { resource, name: configuration.metadata.name, required: true, seen: () => configuration },
      ];
      const client = { patch: () => Promise.reject(new Error('may not')) };
      return syncRegistrations({ registrations, wish: on, mayWrite: false, client, signal });
    };
    await expect(pass(patched(validating, byService))).rejects.toThrow(
      'lacks vservice.kb.io and vingress.kb.io, which gate ResourcesDeletionProtection needs',
    );
    await expect(pass(patched(validating, on))).resolves.toMatchObject({ written: 0 });
  });
});

describe('a pass over the registrations', () => {
  const resource = kubeResource.mutatingWebhookConfigurations;
  const { name } = shipped.metadata;

  function registered(cluster: MemoryCluster): readonly Registration[] {
    const look = (of: typeof resource | typeof kubeResource.validatingWebhookConfigurations, which: string) => ({
      resource: of,
      name: which,
      required: true,
      seen: () => cluster.look<WebhookConfiguration>(of, { name: which }),
    });
    return [
      look(resource, name),
      look(kubeResource.validatingWebhookConfigurations, 'kruise-validating-webhook-configuration'),
    ];
  }

  it('FG-10: a missing configuration is an error, and the others are written nevertheless', async () => {
    const cluster = new MemoryCluster();
    cluster.put(resource, shipped);
    const pass = syncRegistrations({
      registrations: registered(cluster),
      wish: byService,
      mayWrite: true,
      client: cluster.client(),
      signal,
    });
    await expect(pass).rejects.toThrow(
      'Cannot write the webhook configurations: ValidatingWebhookConfiguration "kruise-validating-webhook-configuration" is missing',
    );
    expect(JSON.stringify(cluster.look(resource, { name }))).toContain(caBundle);
  });

  it('does not write over webhooks that have changed places meanwhile', async () => {
    const cluster = new MemoryCluster();
    const stale = structuredClone(shipped);
    cluster.put(resource, { ...shipped, webhooks: shipped.webhooks?.toReversed() });
    const pass = syncRegistrations({
      registrations: [{ resource, name, required: true, seen: () => stale }],
      wish: byService,
      mayWrite: true,
      client: cluster.client(),
      signal,
    });
    await expect(pass).rejects.toThrow('cannot be written');
    expect(JSON.stringify(cluster.look(resource, { name }))).not.toContain('caBundle');
  });

  it('reports every path that is registered, so that one that is not served can be logged', async () => {
    const cluster = new MemoryCluster();
    const foreign = { ...shipped.webhooks?.[0], name: 'mcloneset.kb.io', clientConfig: { url: 'https://a/mutate-x' } };
    cluster.put(resource, { ...shipped, webhooks: [foreign] } as unknown as WebhookConfiguration);
    const { paths, written } = await syncRegistrations({
      registrations: registered(cluster).slice(0, 1),
      wish: byUrl,
      mayWrite: true,
      client: cluster.client(),
      signal,
    });
    expect([paths, written]).toEqual([['/mutate-x'], 1]);
  });

  it('FG-22: with external certificates nothing is written, and another caBundle is an error', async () => {
    const cluster = new MemoryCluster();
    cluster.put(resource, shipped);
    const input = {
      registrations: registered(cluster).slice(0, 1),
      wish: byService,
      mayWrite: false,
      client: { patch: () => Promise.reject(new KubeError({ status: 403, message: 'may not' })) },
      signal,
    };
    await expect(syncRegistrations(input)).rejects.toThrow(
      `caBundle of MutatingWebhookConfiguration "${name}" does not match the external caBundle`,
    );
    cluster.put(resource, patched(shipped, byService));
    expect(await syncRegistrations(input)).toMatchObject({ written: 0 });
  });
});
