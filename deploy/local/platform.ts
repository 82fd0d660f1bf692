// The local platform as a library, for `npm run up`, `down` and `status`, and for tests.
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type ApiServer, apply, call } from './api-server.ts';
import { baseImages } from './base-images.ts';
import { processesInCgroups, removeCgroups } from './cgroups.ts';
import {
  apiserver,
  controllerManager,
  controlPlaneProxy,
  etcd,
  portForwards,
  prepareControlPlane,
  registry,
  scheduler,
  temporal,
  webhookClientAuthority,
} from './control-plane.ts';
import { type DebianTools, ensureDebianTools } from './debian.ts';
import { endDrained, setAside, workerPort } from './draining.ts';
import { type ExternalOptions, externalRecord, startExternal, stopExternal } from './external.ts';
import { checkedFeatureGates, instanceFeatureGates, noteFeatureGates } from './feature-gates.ts';
import { pushImages } from './images.ts';
import {
  claimInstance,
  controlPlanePorts,
  findInstance,
  type Instance,
  instanceFolder,
  maxNodes,
  type NodePlace,
  nodePlace,
  ownEntries,
  releaseInstance,
} from './instance.ts';
import { apiserverUrl, writeKubeconfig } from './kubeconfigs.ts';
import { kwok, makePlayedNodes, playedNode } from './kwok.ts';
import { withLock } from './lock.ts';
import { applyManifests } from './manifests.ts';
import {
  holderOf,
  makeControlPlane,
  makeMountPoints,
  makeNode,
  marker,
  recordedHolders,
  removeLinks,
  removeMountPoints,
} from './namespaces.ts';
import { nodeParts } from './node.ts';
import { adminAgent, endUnrecordedParts, ensurePart, type PartStatus, partStatuses, readParts } from './parts.ts';
import {
  commandOf,
  endProcesses,
  findProcesses,
  hasEnvironment,
  holdMountNamespaces,
  listenersOn,
  namespaceOf,
  type ProcessRef,
  processState,
} from './processes.ts';
import type { Progress } from './progress.ts';
import { canRun, type Role, roleBundles, roleNames, rolePart, roles, writeRoleAccess } from './roles.ts';
import { ensureTools } from './tools.ts';
import { waitFor } from './wait.ts';

/** The desired content of an instance. It only grows: running parts that are not requested stay. */
export interface UpOptions {
  /** From `instanceName`. */
  readonly name: string;
  /** The minimum number of nodes. 0: an API server that accepts pods but runs none. */
  readonly nodes: number;
  /** The number of additional nodes that kwok simulates. Absent: none. */
  readonly playedNodes?: number;
  /** Whether Windlass's roles run as parts. False: tests run them in their own process. */
  readonly windlass: boolean;
  /** Absent: 120. */
  readonly nodeMonitorGraceSeconds?: number;
  /** For every role, in addition to those of the local platform. Absent: those of the last `up`. */
  readonly featureGates?: string | undefined;
  readonly progress: Progress;
}

/** Addresses and parts of an instance. */
export interface PlatformStatus {
  readonly instance: string;
  readonly folder: string;
  readonly kubeconfig: string;
  readonly apiserver: string;
  readonly registry: string;
  readonly temporal: string;
  readonly ui: string;
  /**
   * A process that listens on the machine's end of the link is reachable from the API server, for example as a webhook.
   */
  readonly machine: string;
  readonly parts: readonly PartStatus[];
}

/**
 * Starts an instance, or repairs it: creates and starts everything that is missing or dead, and changes nothing else.
 */
export async function up(options: UpOptions): Promise<PlatformStatus> {
  const { name, progress } = options;
  checkMachine();
  checkedFeatureGates(options.featureGates ?? '');
  if (options.nodes > maxNodes) throw new Error(`--nodes ${options.nodes}: must be at most ${maxNodes}`);
  const folder = instanceFolder(name);
  return await withLock(
    folder,
    async () => {
      const [debian] = await Promise.all([ensureDebianTools(progress), ensureTools(progress)]);
      const { playedNodes = 0 } = options;
      if (playedNodes > 0) await ensureTools(progress, ['kwok']);
      mkdirSync(folder, { recursive: true });
      const instance = await claimInstance(name, makeMountPoints);
      for (const line of noteFeatureGates(instance, options.featureGates)) progress.say(line);
      const nodeCount = Math.max(options.nodes, knownNodes(instance));
      await progress.step('Namespaces and certificates', async () => {
        await endUnrecordedParts(instance);
        const { temporal: engine, ui, registry: images } = instance.ports;
        await checkPorts(instance, { temporal: engine, ui, registry: images });
        await prepareNamespaces(instance, nodeCount);
        await prepareControlPlane(instance);
      });
      const { windlass } = options;
      const nodes = Array.from({ length: nodeCount }, (_, index) => nodePlace(instance, index + 1));
      const [bundles] = await Promise.all([
        windlass ? roleBundles(progress) : '',
        startControlPlane(instance, debian, options, nodeCount),
        progress.step('Temporal', () => ensurePart(instance, temporal(instance))),
        progress.step('Image registry', async () => {
          await ensurePart(instance, registry(instance, debian));
          const address = `http://${instance.addresses.controlPlane}:${controlPlanePorts.registry}`;
          await pushImages(address, await baseImages(debian));
        }),
        ensurePart(instance, portForwards(instance)),
      ]);
      if (playedNodes > 0) {
        await progress.step(`${playedNodes} played nodes`, () => startPlayedNodes(instance, playedNodes));
      }
      const source: RoleSource = { bundles, applyManifests, rolePart };
      const keepsWorker = true;
      const runnable = windlass ? await prepareRoles(instance, progress, source) : [];
      await Promise.all([
        ...runnable
          .filter((role) => role !== roles.daemon)
          .map((role) => startRole({ instance, source, role, node: undefined, progress, keepsWorker })),
        ...nodes.map(async (node) => {
          await progress.step(`Node ${node.name}`, async () => {
            for (const part of await nodeParts(instance, node, debian)) await ensurePart(instance, part);
            await nodeReady(instance, node.name);
          });
          const { daemon } = roles;
          if (runnable.includes(daemon)) await startRole({ instance, source, role: daemon, node, progress });
        }),
      ]);
      await endDrained(instance, progress);
      return statusOf(instance);
    },
    () => progress.say(`Waiting for another command on instance "${name}"`),
  );
}

/** Runs only Windlass, with an existing cluster. */
export async function upExternal(name: string, options: ExternalOptions, progress: Progress): Promise<PlatformStatus> {
  checkMachine();
  checkedFeatureGates(options.featureGates ?? '');
  return await withLock(
    instanceFolder(name),
    async () => {
      await ensureTools(progress, ['kubectl', 'temporal']);
      const instance = await claimInstance(name, () => undefined);
      if (holderOf(instance, 'control-plane')) {
        throw new Error(`Instance "${name}" has a cluster of its own: set WINDLASS_INSTANCE to another name`);
      }
      await endUnrecordedParts(instance);
      const { temporal: engine, ui, role } = instance.ports;
      await checkPorts(instance, { ...(options.temporalAddress ? {} : { temporal: engine, ui }), ...role });
      for (const line of noteFeatureGates(instance, options.featureGates)) progress.say(line);
      await startExternal(instance, options, progress);
      return statusOf(instance);
    },
    () => progress.say(`Waiting for another command on instance "${name}"`),
  );
}

/** Removes an instance: all its processes, mounts, namespaces, links, cgroups and data; its logs stay. */
export async function down(name: string, progress: Progress): Promise<void> {
  const folder = instanceFolder(name);
  await withLock(
    folder,
    async () => {
      const instance = findInstance(name);
      if (!instance) return;
      await progress.step(`Stopping instance "${name}"`, async () => {
        await stopExternal(instance);
        await remove(instance);
      });
    },
    () => progress.say(`Waiting for another command on instance "${name}"`),
  );
}

/** The status of an instance; `undefined` when it is down. */
export function status(name: string): PlatformStatus | undefined {
  const instance = findInstance(name);
  return instance && statusOf(instance);
}

function statusOf(instance: Instance): PlatformStatus {
  const { ports } = instance;
  const external = externalRecord(instance);
  if (external) {
    return {
      instance: instance.name,
      folder: instance.folder,
      ...external,
      registry: '',
      ui: external.temporal === `127.0.0.1:${ports.temporal}` ? `http://127.0.0.1:${ports.ui}` : '',
      machine: '',
      parts: partStatuses(instance),
    };
  }
  return {
    instance: instance.name,
    folder: instance.folder,
    kubeconfig: instance.kubeconfig,
    apiserver: apiserverUrl(instance),
    registry: `127.0.0.1:${ports.registry}`,
    temporal: `127.0.0.1:${ports.temporal}`,
    ui: `http://127.0.0.1:${ports.ui}`,
    machine: instance.addresses.machine,
    parts: partStatuses(instance),
  };
}

async function startControlPlane(
  instance: Instance,
  debian: DebianTools,
  { progress, nodeMonitorGraceSeconds = 120, playedNodes = 0 }: UpOptions,
  nodeCount: number,
): Promise<void> {
  await progress.step('etcd', () => ensurePart(instance, etcd(instance, debian)));
  await progress.step('API server', () => ensurePart(instance, apiserver(instance)));
  await progress.step('Controllers', async () => {
    await Promise.all([
      ensurePart(instance, controllerManager(instance, { nodeMonitorGraceSeconds })),
      ...(nodeCount + playedNodes > 0 ? [ensurePart(instance, scheduler(instance))] : []),
      ...(nodeCount > 0 ? [ensurePart(instance, controlPlaneProxy(instance, debian))] : []),
      withApi(instance, async (api) => {
        await apply(api, '/apis/storage.k8s.io/v1/storageclasses/standard', defaultStorageClass);
        await waitFor('namespace kube-system', () => call(api, 'GET', '/api/v1/namespaces/kube-system'));
        await apply(api, '/api/v1/namespaces/kube-system/services/kube-dns', nameService(instance));
        // Pods are rejected until their namespace has a ServiceAccount `default`, and the controller that creates it
        // starts late.
        await waitFor('namespace default', () => call(api, 'GET', '/api/v1/namespaces/default'));
        await apply(api, '/api/v1/namespaces/default/serviceaccounts/default', defaultServiceAccount);
      }),
    ]);
  });
}

async function startPlayedNodes(instance: Instance, count: number): Promise<void> {
  await ensurePart(instance, await kwok(instance, count));
  await withApi(instance, (api) => makePlayedNodes(api, count));
  await Promise.all(Array.from({ length: count }, (_, index) => nodeReady(instance, playedNode(index + 1))));
}

function nameService(instance: Instance): object {
  const port = { name: 'dns', port: 53, protocol: 'UDP' };
  const clusterIP = instance.addresses.nameService;
  const metadata = { name: 'kube-dns', namespace: 'kube-system' };
  return { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP, ports: [port] } };
}

const defaultServiceAccount = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name: 'default', namespace: 'default' },
} as const;

const defaultStorageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'standard', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
  provisioner: 'kubernetes.io/host-path',
} as const;

async function nodeReady(instance: Instance, name: string): Promise<void> {
  interface Node {
    readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
  }
  await withApi(instance, (api) =>
    waitFor(`node ${name} to be ready`, async () => {
      const node = await call<Node>(api, 'GET', `/api/v1/nodes/${name}`);
      return node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    }),
  );
}

/** Applies the manifests and returns the roles that can run; reports those that cannot. */
async function prepareRoles(instance: Instance, progress: Progress, source: RoleSource): Promise<Role[]> {
  await applyRoleManifests(instance, progress, source);
  return await withApi(instance, async (api) => {
    const runnable: Role[] = [];
    for (const role of Object.values(roles)) {
      if (await canRun(api, role)) runnable.push(role);
      else progress.say(`Skipped: ${role.name} (ServiceAccount ${role.serviceAccount} does not exist)`);
    }
    return runnable;
  });
}

async function applyRoleManifests(instance: Instance, progress: Progress, source: RoleSource): Promise<void> {
  const webhookUrl = `https://${instance.addresses.controlPlane}:${controlPlanePorts.webhook}`;
  const { kubeconfig, folder } = instance;
  await withApi(instance, (api) =>
    progress.step('Manifests of Windlass', () =>
      source.applyManifests({
        ...{ api, kubeconfig, webhookUrl },
        apiServerAddress: instance.addresses.controlPlane,
        cacheFolder: join(folder, 'control-plane/kubectl'),
        featureGates: instanceFeatureGates(instance),
      }),
    ),
  );
}

/** Ports for health and metrics, at the address of the API server; the daemon's is at its node's address. */
export const rolePorts = { watcher: 8080, webhook: 8081, worker: 8082, daemon: 10_221 } as const;

/** The roles of one version of Windlass: what is applied before they run, and how each is run. */
export interface RoleSource {
  /** From `roleBundles`. */
  readonly bundles: string;
  readonly applyManifests: typeof applyManifests;
  readonly rolePart: typeof rolePart;
}

/** What is replaced, one after the other, when another version of Windlass is installed. */
export const replaceableParts = ['manifests', ...roleNames] as const;

export type ReplaceablePart = (typeof replaceableParts)[number];

/**
 * Replaces Windlass in a running instance by another version, in this order, and waits for each part to be ready.
 * `keepsWorker`: a worker with other workflow code continues beside the new one, until `endDrained`.
 */
export async function replaceRoles(
  name: string,
  source: RoleSource,
  progress: Progress,
  { parts = replaceableParts, keepsWorker = false }: ReplaceOptions = {},
): Promise<void> {
  const instance = findInstance(name);
  if (!instance) throw new Error(`Instance "${name}" is down`);
  const nodes = Array.from({ length: knownNodes(instance) }, (_, index) => nodePlace(instance, index + 1));
  for (const part of parts) {
    if (part === 'manifests') {
      await applyRoleManifests(instance, progress, source);
      continue;
    }
    const role = roles[part];
    for (const node of role === roles.daemon ? nodes : [undefined]) {
      await startRole({ instance, source, role, node, progress, keepsWorker });
    }
  }
}

export interface ReplaceOptions {
  /** Absent: all, manifests first. */
  readonly parts?: readonly ReplaceablePart[];
  readonly keepsWorker?: boolean;
}

function giveAccess(instance: Instance, role: Role, node: NodePlace | undefined): Promise<string> {
  const folder = join(instance.folder, 'roles');
  return withApi(instance, (api) =>
    writeRoleAccess(api, role, folder, node, (file, user, tokenFile) =>
      writeKubeconfig(instance, file, user, { kind: 'token', tokenFile }),
    ),
  );
}

async function startRole({
  instance,
  source,
  role,
  node,
  progress,
  keepsWorker = false,
}: {
  readonly instance: Instance;
  readonly source: RoleSource;
  readonly role: Role;
  readonly node: NodePlace | undefined;
  readonly progress: Progress;
  /** Whether a worker with other workflow code continues beside its replacement. */
  readonly keepsWorker?: boolean;
}): Promise<void> {
  const { controlPlane } = instance.addresses;
  await progress.step(`Windlass ${role.name}${node ? ` on ${node.name}` : ''}`, async () => {
    const kubeconfig = await giveAccess(instance, role, node);
    const partAt = (port: number) =>
      source.rolePart(role, {
        bundles: source.bundles,
        place: node ? `node-${node.number}` : 'control-plane',
        kubeconfig,
        temporalAddress: `${controlPlane}:${controlPlanePorts.temporal}`,
        featureGates: instanceFeatureGates(instance),
        healthAddress: `${node ? node.address : controlPlane}:${port}`,
        ...(role === roles.webhook
          ? {
              webhook: {
                host: controlPlane,
                port: controlPlanePorts.webhook,
                clientCaFile: webhookClientAuthority(instance),
              },
            }
          : {}),
        ...(node ? { node: { name: node.name, socketFolder: '/run' } } : {}),
      });
    const port = () => (role === roles.worker ? workerPort(instance, rolePorts.worker) : rolePorts[role.name]);
    if (keepsWorker && role === roles.worker) setAside(instance, partAt(port()));
    await ensurePart(instance, partAt(port()));
  });
}

/** Calls `work` with the administrator's access to an instance's API server. */
export async function withApi<T>(instance: Instance, work: (api: ApiServer) => Promise<T>): Promise<T> {
  const dispatcher = adminAgent(instance);
  try {
    return await work({ url: apiserverUrl(instance), dispatcher });
  } finally {
    await dispatcher.destroy();
  }
}

async function prepareNamespaces(instance: Instance, nodeCount: number): Promise<void> {
  await endLost(instance);
  await makeControlPlane(instance);
  for (let number = 1; number <= nodeCount; number += 1) {
    await makeNode(instance, nodePlace(instance, number), nodeCount);
  }
}

/** Stops parts whose namespaces have lost their holder: they have no network, and new namespaces will be created. */
async function endLost(instance: Instance): Promise<void> {
  const lost = new Set(
    recordedHolders(instance)
      .filter(({ ref }) => !processState(ref))
      .map(({ place }) => place),
  );
  if (lost.size === 0) return;
  const kept = new Set(
    recordedHolders(instance).flatMap(({ ref }) => (processState(ref) ? [namespaceOf(ref.pid, 'mnt')] : [])),
  );
  kept.add(namespaceOf('self', 'mnt'));
  const strays = processesInCgroups(`${instance.id}-parts`).filter(({ pid }) => !kept.has(namespaceOf(pid, 'mnt')));
  await endProcesses(strays, 0);
  for (const place of lost) {
    if (place !== 'control-plane') await endProcesses(processesInCgroups(`${instance.id}-${place}`), 0);
  }
}

function knownNodes(instance: Instance): number {
  const numbers = recordedHolders(instance).flatMap(({ place }) => {
    const match = /^node-(\d+)$/.exec(place);
    return match ? [Number(match[1])] : [];
  });
  return Math.max(0, ...numbers);
}

async function checkPorts(instance: Instance, ports: Readonly<Record<string, number>>): Promise<void> {
  const own = new Set(readParts(instance).map(({ pid }) => pid));
  for (const [use, port] of Object.entries(ports)) {
    const others = listenersOn(port).filter((pid) => !own.has(pid));
    const [pid] = others;
    if (pid !== undefined) {
      const owner = `process ${pid} (${commandOf(pid)})`;
      throw new Error(
        `Cannot use 127.0.0.1:${port} for ${use}: ${owner} listens there. ` +
          'Stop it, or start another instance: WINDLASS_INSTANCE=NAME',
      );
    }
  }
}

async function remove(instance: Instance): Promise<void> {
  const roots = recordedHolders(instance);
  const environment = marker(instance);
  // held, so that processes of another instance that starts meanwhile never look like ours
  const places = holdMountNamespaces(roots.map(({ ref }) => ref));
  try {
    // Four ways to find them, because any one may have been lost in a crash. Repeated, because new ones may start
    // meanwhile.
    for (let found = 1; found > 0; ) {
      const byRecord: ProcessRef[] = [...readParts(instance), ...roots.map(({ ref }) => ref)];
      const byCgroup = processesInCgroups(instance.id);
      const byPlace = findProcesses(
        (pid) => places.names.has(namespaceOf(pid, 'mnt') ?? '') || hasEnvironment(pid, environment),
      );
      const refs = new Map([...byRecord, ...byCgroup, ...byPlace].map((ref) => [ref.pid, ref]));
      refs.delete(process.pid);
      const living = [...refs.values()].filter(processState);
      found = living.length;
      await endProcesses(living, 0);
    }
  } finally {
    places.release();
  }
  await removeCgroups(instance.id);
  await removeLinks(instance);
  for (const entry of ownEntries) {
    rmSync(join(instance.folder, entry), { recursive: true, force: true, maxRetries: 5 });
  }
  await releaseInstance(instance, removeMountPoints);
}

function checkMachine(): void {
  if (process.platform !== 'linux') throw new Error('The local platform needs Linux');
  if (process.getuid?.() !== 0) throw new Error('The local platform creates namespaces and cgroups: run it as root');
  for (const [command, from] of neededCommands) {
    const found = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((folder) => existsSync(join(folder, command)));
    if (!found) throw new Error(`The local platform needs the command "${command}" (Debian package ${from})`);
  }
}

const neededCommands = [
  ['ip', 'iproute2'],
  ['unshare', 'util-linux'],
  ['nsenter', 'util-linux'],
  ['mount', 'mount'],
  ['dpkg', 'dpkg'],
  ['apt-get', 'apt'],
] as const;
