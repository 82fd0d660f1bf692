// Cgroups of an instance: one tree for the pods of each node, and one group for all parts, so that every descendant of
// an instance can be found. Supports cgroup v1 (a folder in each hierarchy) and v2.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endProcesses, type ProcessRef, processRef } from './processes.ts';
import { pause } from './wait.ts';

const root = '/sys/fs/cgroup';
const cgroup2Magic = 0x63677270;

/** Creates the parent group of a node's pods, ready for the kubelet. */
export function makeNodeCgroup(name: string): void {
  if (isVersion2()) {
    delegate(root);
    mkdirSync(join(root, name), { recursive: true });
    delegate(join(root, name));
    return;
  }
  for (const hierarchy of hierarchies()) {
    const folder = join(hierarchy, name);
    mkdirSync(folder, { recursive: true });
    // A new cpuset is empty, and cannot run processes before it has CPUs and memory nodes.
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      const [own, parent] = [join(folder, file), join(hierarchy, file)];
      if (existsSync(own) && readFileSync(own, 'utf8').trim() === '') writeFileSync(own, readFileSync(parent, 'utf8'));
    }
  }
}

/** Creates the group of an instance's parts, and returns the file that accepts process IDs. */
export function makePartsCgroup(name: string): string {
  const folder = join(partsHierarchy(), name);
  mkdirSync(folder, { recursive: true });
  return join(folder, 'cgroup.procs');
}

/** Every process in groups with the name `prefix`, or a name that begins with `prefix-`. */
export function processesInCgroups(prefix: string): ProcessRef[] {
  const pids = new Set<number>();
  for (const folder of groupsOf(prefix)) {
    for (const group of withDescendants(folder)) {
      for (const pid of readPids(group)) pids.add(pid);
    }
  }
  return [...pids].flatMap((pid) => processRef(pid) ?? []);
}

/** Kills the remaining processes of these groups and removes the groups. */
export async function removeCgroups(prefix: string): Promise<void> {
  for (let attempt = 0; groupsOf(prefix).length > 0; attempt += 1) {
    await endProcesses(processesInCgroups(prefix), 0);
    for (const folder of groupsOf(prefix)) {
      for (const group of withDescendants(folder)) {
        try {
          rmdirSync(group);
        } catch (error) {
          // The kernel empties a group a moment after its last process has exited.
          if (attempt > 200) throw new Error(`Cannot remove cgroup ${group}: ${String(error)}`);
        }
      }
    }
    await pause(20);
  }
}

function groupsOf(prefix: string): string[] {
  return hierarchies().flatMap((hierarchy) =>
    readdirSync(hierarchy)
      .filter((name) => name === prefix || name.startsWith(`${prefix}-`))
      .map((name) => join(hierarchy, name)),
  );
}

/** Deepest first, as rmdir requires. */
function withDescendants(folder: string): string[] {
  try {
    const children = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return [...children.flatMap((child) => withDescendants(join(folder, child.name))), folder];
  } catch {
    return [];
  }
}

function readPids(group: string): number[] {
  try {
    return readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function isVersion2(): boolean {
  return statfsSync(root).type === cgroup2Magic;
}

function hierarchies(): string[] {
  if (isVersion2()) return [root];
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const found = mounts.flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    return /^cgroup2? /.test(after) ? [before.split(' ')[4] ?? ''] : [];
  });
  if (found.length === 0)
    throw new Error(`Cannot use ${root}: neither cgroup v2 nor the hierarchies of v1 are mounted`);
  return found;
}

function partsHierarchy(): string {
  if (isVersion2()) return root;
  const all = hierarchies();
  return all.find((hierarchy) => hierarchy.endsWith('/pids')) ?? all[0] ?? root;
}

function delegate(folder: string): void {
  const controllers = readFileSync(join(folder, 'cgroup.controllers'), 'utf8').trim().split(' ').filter(Boolean);
  const delegated = readFileSync(join(folder, 'cgroup.subtree_control'), 'utf8').trim().split(' ');
  const missing = controllers.filter((controller) => !delegated.includes(controller));
  if (missing.length === 0) return;
  try {
    writeFileSync(join(folder, 'cgroup.subtree_control'), missing.map((controller) => `+${controller}`).join(' '));
  } catch (error) {
    throw new Error(
      `Cannot delegate cgroup controllers ${missing.join(', ')} below ${folder}: ${String(error)}. ` +
        'In a container, start it with the host cgroup namespace, or move its processes into a child group first',
    );
  }
}
