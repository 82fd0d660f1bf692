// Where parts run: the control plane and each node are a `sleep` process that holds a network and a mount namespace.
// Everything here is idempotent: each `up` runs it and adds what is missing.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeNodeCgroup, makePartsCgroup } from './cgroups.ts';
import { filesIn, readJson, writeFile, writeJson } from './files.ts';
import { cacheFolder, type Instance, type NodePlace, nodePlace } from './instance.ts';
import { findProcesses, hasMount, namespaceOf, type ProcessRef, processRef, processState } from './processes.ts';
import { run } from './run.ts';
import { waitFor } from './wait.ts';

/** Where a part runs: on the machine itself, or in the namespaces `control-plane` or `node-N`. */
export type Place = 'machine' | 'control-plane' | `node-${number}`;

/** In the environment of each process that an instance starts, so that all can be found. */
export function marker(instance: Instance): string {
  return `WINDLASS_INSTANCE_FOLDER=${instance.folder}`;
}

/** The process that holds a place; `undefined` when there is none or it has died. */
export function holderOf(instance: Instance, place: Place): ProcessRef | undefined {
  const ref = readJson<ProcessRef>(holderFile(instance, place));
  return ref && processState(ref) ? ref : undefined;
}

/** Every place that was ever created for this instance. */
export function recordedHolders(instance: Instance): { readonly place: string; readonly ref: ProcessRef }[] {
  return filesIn(join(instance.folder, 'namespaces')).flatMap((file) => {
    const ref = readJson<ProcessRef>(file);
    return ref ? [{ place: file.replace(/^.*\/|\.json$/g, ''), ref }] : [];
  });
}

/** The command line that runs another one in a place. */
export function commandIn(instance: Instance, place: Place, argv: readonly string[]): readonly string[] {
  if (place === 'machine') return argv;
  const holder = holderOf(instance, place);
  if (!holder) throw new Error(`Cannot run ${argv[0]} in ${place}: its namespaces do not exist, run "npm run up"`);
  return ['nsenter', `--net=/proc/${holder.pid}/ns/net`, `--mount=/proc/${holder.pid}/ns/mnt`, ...argv];
}

/** Creates the control plane's namespaces, the bridge that connects the nodes, and the link to this machine. */
export async function makeControlPlane(instance: Instance): Promise<void> {
  const { controlPlane, machine } = instance.addresses;
  const { pid } = await makeHolder(instance, 'control-plane');
  await runIn(instance, 'control-plane', [
    ...bindMounts(instance, join(instance.folder, 'control-plane'), { run: '/run' }),
    ...networkBasics,
    // A fixed address: otherwise the bridge uses one of its ports', which changes when that port is removed.
    'ip link show br0 >/dev/null 2>&1 || ip link add br0 address 02:57:4c:00:00:01 type bridge',
    `ip addr replace ${controlPlane}/24 dev br0`,
    'ip link set br0 up',
  ]);
  const link = instance.id;
  await shell([
    // A link whose other end was in the namespace of a dead control plane is useless.
    `nsenter --net=/proc/${pid}/ns/net ip link show machine >/dev/null 2>&1 || { ip link del ${link} 2>/dev/null || true; ` +
      `ip link add ${link} type veth peer name machine netns ${pid}; }`,
    `ip addr replace ${machine}/24 dev ${link}`,
    `ip link set ${link} up`,
    // Raised for the kubelets; never lowered.
    'test "$(cat /proc/sys/fs/inotify/max_user_instances)" -ge 8192 || echo 8192 > /proc/sys/fs/inotify/max_user_instances',
  ]);
  await runIn(instance, 'control-plane', [
    'ip link set machine master br0 up',
    // Connections to Service addresses need a route before kube-proxy's rules see them.
    `ip route replace default via ${machine}`,
  ]);
}

/** Creates a node's namespaces, its own folders at the standard paths, its link to the bridge, its cgroup. */
export async function makeNode(instance: Instance, node: NodePlace, nodeCount: number): Promise<void> {
  makeNodeCgroup(node.cgroup);
  const place: Place = `node-${node.number}`;
  const { pid } = await makeHolder(instance, place);
  writeFile(join(node.folder, 'resolv.conf'), resolverConfig, 0o644);
  await runIn(instance, place, [
    ...bindMounts(instance, node.folder, nodeFolders),
    "target=$(readlink -f /etc/resolv.conf); test -e $target || target=''",
    `test -z "$target" || test '${node.folder}/resolv.conf' -ef $target || ` +
      `mount --bind '${node.folder}/resolv.conf' $target`,
  ]);
  await runIn(instance, 'control-plane', [
    `nsenter --net=/proc/${pid}/ns/net ip link show eth0 >/dev/null 2>&1 || { ip link del ${place} 2>/dev/null || true; ` +
      `ip link add ${place} type veth peer name eth0 netns ${pid}; }`,
    `ip link set ${place} master br0 up`,
    `ip route replace ${node.podRange} via ${node.address}`,
  ]);
  const others = Array.from({ length: nodeCount }, (_, index) => nodePlace(instance, index + 1));
  await runIn(instance, place, [
    ...networkBasics,
    `ip addr replace ${node.address}/24 dev eth0`,
    'ip link set eth0 up',
    `ip route replace default via ${instance.addresses.controlPlane}`,
    ...others
      .filter(({ number }) => number !== node.number)
      .map((other) => `ip route replace ${other.podRange} via ${other.address}`),
  ]);
}

/** Removes the link to this machine, in case the kernel has not done so with the namespace. */
export async function removeLinks(instance: Instance): Promise<void> {
  await run('ip', ['link', 'del', instance.id]).catch(() => undefined);
  rmSync(join(instance.folder, 'namespaces'), { recursive: true, force: true });
}

/** Creates missing folders on the machine that will be mount points; call it while holding the instances' lock. */
export function makeMountPoints(): void {
  const made = readJson<readonly string[]>(mountPointsFile) ?? [];
  const missing: string[] = [];
  for (const target of [...Object.values(nodeFolders), volumesFolder]) {
    const before = missing.length;
    for (let folder: string = target; !existsSync(folder); folder = dirname(folder)) missing.splice(before, 0, folder);
    mkdirSync(target, { recursive: true });
  }
  if (missing.length > 0) writeJson(mountPointsFile, [...made, ...missing]);
}

/** Removes the empty folders that were created on the machine as mount points; only when no instance is left. */
export function removeMountPoints(): void {
  const made = readJson<readonly string[]>(mountPointsFile) ?? [];
  for (const folder of [...made].reverse()) {
    // Removing it would remove the mount of a process that has one there, such as another user's instance.
    if (findProcesses((pid) => hasMount(pid, folder)).length > 0) continue;
    try {
      rmdirSync(folder);
    } catch {
      // Not empty: another process uses it.
    }
  }
  rmSync(mountPointsFile, { force: true });
}

const nodeFolders = {
  run: '/run',
  kubelet: '/var/lib/kubelet',
  containerd: '/var/lib/containerd',
  cni: '/var/lib/cni',
  'cni-config': '/etc/cni/net.d',
  pods: '/var/log/pods',
  containers: '/var/log/containers',
} as const;

/** There is no name server: lookups fail at once, and never reach the machine's own. */
const resolverConfig = 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n';

/** The folder for volumes of the default StorageClass: the same for all nodes of an instance. */
const volumesFolder = '/tmp/hostpath_pv';

const mountPointsFile = join(cacheFolder, 'instances', 'mount-points');

const networkBasics = [
  'ip link set lo up',
  'echo 1 > /proc/sys/net/ipv4/ip_forward',
  'for file in iptables ip6tables; do ' +
    'test ! -e /proc/sys/net/bridge/bridge-nf-call-$file || echo 1 > /proc/sys/net/bridge/bridge-nf-call-$file; done',
];

async function makeHolder(instance: Instance, place: Place): Promise<ProcessRef> {
  const living = holderOf(instance, place);
  if (living) return living;

  const file = holderFile(instance, place);
  const procs = makePartsCgroup(`${instance.id}-parts`);
  const [key = '', value = ''] = marker(instance).split('=');
  const child = spawn(
    'unshare',
    ['--net', '--mount', '--propagation', 'private', 'sh', '-c', `echo $$ > ${procs}; exec sleep infinity`],
    { detached: true, stdio: 'ignore', env: { PATH: process.env.PATH, [key]: value }, cwd: '/' },
  );
  child.unref();
  const { pid } = child;
  const ref = pid === undefined ? undefined : processRef(pid);
  if (!ref) throw new Error(`Cannot create namespaces for ${place}: unshare did not start`);
  writeJson(file, ref);
  await waitFor(`namespaces of ${place}`, async () => {
    if (!processState(ref)) throw new Error('unshare ended');
    return (
      namespaceOf(ref.pid, 'mnt') !== namespaceOf('self', 'mnt') &&
      namespaceOf(ref.pid, 'net') !== namespaceOf('self', 'net')
    );
  });
  return ref;
}

function bindMounts(instance: Instance, folder: string, folders: Readonly<Record<string, string>>): string[] {
  const volumes = join(instance.folder, 'volumes');
  const binds = [
    ...Object.entries(folders).map(([name, target]) => ({ source: join(folder, name), target })),
    { source: volumes, target: volumesFolder },
  ];
  for (const { source } of binds) mkdirSync(source, { recursive: true });
  const first = binds[0];
  return [
    `if ! test '${first?.source}' -ef '${first?.target}'; then`,
    ...binds.map(({ source, target }) => `  mount --bind '${source}' '${target}'`),
    // After the bind mounts, so that each is a separate peer group and mounts of pods do not appear twice.
    '  mount --make-rshared /',
    'fi',
    'mkdir -p /run/lock',
  ];
}

async function runIn(instance: Instance, place: Place, lines: readonly string[]): Promise<void> {
  const [command = '', ...args] = commandIn(instance, place, ['sh', '-ex']);
  await run(command, args, { input: `${lines.join('\n')}\n` });
}

async function shell(lines: readonly string[]): Promise<void> {
  await run('sh', ['-ex'], { input: `${lines.join('\n')}\n` });
}

function holderFile(instance: Instance, place: Place): string {
  return join(instance.folder, 'namespaces', `${place}.json`);
}
