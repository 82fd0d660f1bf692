// An instance is one cluster on this machine. Its name determines the folder in the checkout; its number, claimed in a
// registry beside the tool cache, determines subnets, link names, cgroups and ports, so that instances never collide.
import { rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processesInCgroups } from './cgroups.ts';
import { filesIn, readJson, writeJson } from './files.ts';
import { withLock } from './lock.ts';
import { type ProcessRef, processRef, processState } from './processes.ts';
import { run } from './run.ts';

/** The checkout of this file. */
export const repository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The folder of built tools, unpacked packages and the registry of instances: outside every checkout. */
export const cacheFolder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'windlass');

/** One cluster on this machine: its folder and its addresses. */
export interface Instance {
  readonly name: string;
  readonly folder: string;
  readonly number: number;
  /** Prefix of cgroups and links, unique on this machine. */
  readonly id: string;
  readonly kubeconfig: string;
  readonly addresses: {
    /** The control plane: API server, Temporal, registry and webhooks listen here. */
    readonly controlPlane: string;
    /** The machine's end of the link; API servers reach processes of the machine at this address. */
    readonly machine: string;
    readonly podRange: string;
    readonly serviceRange: string;
    /** First address of `serviceRange`: the Service `kubernetes`. */
    readonly kubernetesService: string;
    /** The Service `kube-dns`, which no process serves: DNS queries of pods fail at once. */
    readonly nameService: string;
  };
  readonly ports: {
    /** On 127.0.0.1, forwarded to the control plane. */
    readonly temporal: number;
    readonly ui: number;
    readonly registry: number;
    /** On the machine itself, for roles with an external cluster: health of each role, and admission. */
    readonly role: Readonly<Record<'admission' | 'watcher' | 'webhook' | 'worker' | 'daemon', number>>;
  };
}

/** The addresses of a node. */
export interface NodePlace {
  readonly number: number;
  readonly name: string;
  readonly address: string;
  readonly podRange: string;
  /** First address of the pod range. */
  readonly gateway: string;
  readonly folder: string;
  readonly cgroup: string;
}

/** Ports on the control plane's own address, the same in each instance. */
export const controlPlanePorts = {
  apiserver: 6443,
  temporal: 7233,
  temporalMetrics: 7235,
  ui: 8233,
  registry: 5000,
  webhook: 9876,
} as const;

/** The maximum number of nodes in the subnets. */
export const maxNodes = 200;

const maxInstances = 100;
/**
 * All files of an instance in its folder except `logs`. The folder of the default instance also contains the folders of
 * the others.
 */
export const ownEntries = [
  'audit.log',
  'control-plane',
  'etcd',
  'external.json',
  'kubeconfig',
  'namespaces',
  'nodes',
  'parts',
  'pki',
  'registry',
  'roles',
  'temporal',
  'volumes',
] as const;

const reservedNames: readonly string[] = ['logs', ...ownEntries];

/** The instance name in the environment, validated; `default` if there is none. */
export function instanceName(env: NodeJS.ProcessEnv): string {
  const name = env.WINDLASS_INSTANCE || 'default';
  if (!/^[a-z][a-z0-9-]{0,30}$/.test(name) || reservedNames.includes(name)) {
    throw new Error(
      `WINDLASS_INSTANCE "${name}": must be 1 to 31 characters of a-z, 0-9 and "-", begin with a letter, and be none of ${reservedNames.join(', ')}`,
    );
  }
  return name;
}

/** The folder of an instance of this checkout. */
export function instanceFolder(name: string): string {
  return name === 'default' ? join(repository, '.windlass') : join(repository, '.windlass', name);
}

/** Addresses and folders of node `number` of an instance. */
export function nodePlace(instance: Instance, number: number): NodePlace {
  const name = `node-${number}`;
  return {
    number,
    name,
    address: `10.88.${instance.number}.${10 + number}`,
    podRange: `10.${128 + instance.number}.${number}.0/24`,
    gateway: `10.${128 + instance.number}.${number}.1`,
    folder: join(instance.folder, 'nodes', name),
    cgroup: `${instance.id}-${name}`,
  };
}

/** The instance of this name if it has a number already. */
export function findInstance(name: string): Instance | undefined {
  const number = ownNumber(instanceFolder(name));
  return number === undefined ? undefined : describe(name, number);
}

/** Assigns a number that no other live instance of this machine has to the instance of this name, then runs `work`. */
export function claimInstance(name: string, work: () => void): Promise<Instance> {
  return withLock(claimsFolder(), async () => {
    const instance = await claim(name);
    work();
    return instance;
  });
}

async function claim(name: string): Promise<Instance> {
  const folder = instanceFolder(name);
  const claims = readClaims();
  const own = ownNumber(folder);
  if (own !== undefined) return take(name, own);

  const routes = await run('ip', ['-4', '-o', 'route', 'show']);
  const start = name === 'default' ? 0 : 1;
  for (let number = start; number < maxInstances; number += 1) {
    const taken = claims.find((entry) => entry.number === number);
    if (taken && isLiving(taken)) continue;
    // A network of something else (a VPN, a container engine) must not be hidden by ours.
    if (!taken && routes.split('\n').some((route) => route.startsWith(`10.88.${number}.`))) continue;
    return take(name, number);
  }
  throw new Error(
    `Cannot claim a subnet for instance "${name}": all ${maxInstances} are in use, see ${claimsFolder()}`,
  );
}

function take(name: string, number: number): Instance {
  const folder = instanceFolder(name);
  writeJson(claimFile(number), { number, name, folder, owner: processRef(process.pid) });
  writeJson(join(folder, numberFile), number);
  return describe(name, number);
}

/** Frees the number, and calls `whenLast` when there is no other live instance on this machine. */
export function releaseInstance(instance: Instance, whenLast: () => void): Promise<void> {
  return withLock(claimsFolder(), async () => {
    rmSync(claimFile(instance.number), { force: true });
    rmSync(join(instance.folder, numberFile), { force: true });
    if (!readClaims().some(isLiving)) whenLast();
  });
}

interface Claim {
  readonly number: number;
  readonly name: string;
  readonly folder: string;
  readonly owner?: ProcessRef;
}

function claimsFolder(): string {
  return join(cacheFolder, 'instances');
}

function claimFile(number: number): string {
  return join(claimsFolder(), `${number}.json`);
}

function readClaims(): Claim[] {
  return filesIn(claimsFolder())
    .flatMap((file) => (/\/\d+\.json$/.test(file) ? [readJson<Claim>(file)] : []))
    .flatMap((claim) => claim ?? []);
}

/** The number of the instance in a folder; the folder's own copy is used when the registry was cleared. */
function ownNumber(folder: string): number | undefined {
  const claims = readClaims();
  const claim = claims.find((entry) => entry.folder === folder);
  if (claim) return claim.number;
  const number = readJson<number>(join(folder, numberFile));
  return claims.some((entry) => entry.number === number) ? undefined : number;
}

const numberFile = 'number.json';

/** A claim is free when its creator and all its processes have died. */
function isLiving({ owner, number }: Claim): boolean {
  return (owner !== undefined && processState(owner) !== undefined) || processesInCgroups(idOf(number)).length > 0;
}

function idOf(number: number): string {
  return `windlass-${number}`;
}

function describe(name: string, number: number): Instance {
  const folder = instanceFolder(name);
  const port = (offset: number): number => 21_000 + number * 10 + offset;
  const services = `10.${96 + (number >> 4)}.${(number & 15) << 4}`;
  return {
    name,
    folder,
    number,
    id: idOf(number),
    kubeconfig: join(folder, 'kubeconfig'),
    addresses: {
      controlPlane: `10.88.${number}.1`,
      machine: `10.88.${number}.254`,
      podRange: `10.${128 + number}.0.0/16`,
      serviceRange: `${services}.0/20`,
      kubernetesService: `${services}.1`,
      nameService: `${services}.10`,
    },
    ports: {
      ...(name === 'default'
        ? { temporal: 7233, ui: 8233, registry: 5000 }
        : { temporal: port(0), ui: port(1), registry: port(2) }),
      role: { admission: port(3), watcher: port(4), webhook: port(5), worker: port(6), daemon: port(7) },
    },
  };
}
