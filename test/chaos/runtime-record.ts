// The second witness: the container runtime of each node, asked through its own tool and never through Windlass.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { type DebianTools, ensureDebianTools } from '../../deploy/local/debian.ts';
import type { Instance } from '../../deploy/local/instance.ts';
import { commandIn, type Place } from '../../deploy/local/namespaces.ts';
import { silentProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';

/** One instance of a container, as the runtime lists it. */
export interface RuntimeInstance {
  readonly id: string;
  readonly podUid: string;
  readonly container: string;
  /** The sandbox that it was made in; when the kubelet replaces that, it ends and makes all containers of the pod anew. */
  readonly sandbox: string;
  readonly createdAt: string;
  readonly running: boolean;
}

const ctr = ['ctr', '--address', '/run/containerd/containerd.sock', '-n', 'k8s.io'];

/** What the runtimes of some nodes do, from `start` to `stop`. */
export class RuntimeRecord {
  readonly #instance: Instance;
  readonly #nodes: readonly Place[];
  readonly #exits = new Map<string, string[]>();
  readonly #images = new Map<string, number>();
  readonly #interruptedAt = new Map<Place, number[]>();
  readonly #children = new Map<Place, ChildProcess>();
  #tools: DebianTools | undefined;
  #stopped = false;
  #running: Promise<unknown> | undefined;

  constructor(instance: Instance, nodes: readonly Place[]) {
    this.#instance = instance;
    this.#nodes = nodes;
  }

  async start(): Promise<void> {
    this.#tools = await ensureDebianTools(silentProgress);
    this.#running = Promise.all(this.#nodes.map((node) => this.#follow(node)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const child of this.#children.values()) child.kill('SIGKILL');
    await this.#running;
  }

  /** When the main process of this instance ended, by the clock of the runtime. */
  exitsOf(containerId: string): readonly string[] {
    return this.#exits.get(containerId) ?? [];
  }

  /** When an image came to be on a node, in milliseconds since 1970 by the clock of the runtime. */
  imageSinceMs(node: string, reference: string): number | undefined {
    return this.#images.get(`${node} ${reference}`);
  }

  /** The images that the runtime of a node lists now, by reference, each with its digest. */
  async imagesOn(node: string): Promise<ReadonlyMap<string, string>> {
    const text = await run(...this.#inNode(node as Place, [...ctr, 'images', 'list']), { env: this.#env });
    const rows = text.split('\n').map((line) => line.split(/\s+/));
    return new Map(rows.flatMap(([name = '', , digest = '']) => (digest.includes(':') ? [[name, digest]] : [])));
  }

  /** Whether every end since then is known: the events of the node were followed without a break. */
  isComplete(node: string, sinceMs: number): boolean {
    return (this.#interruptedAt.get(node as Place) ?? []).every((atMs) => atMs < sinceMs);
  }

  /** Every instance of every container in a namespace that the runtimes still know. */
  async instancesIn(namespace: string): Promise<readonly RuntimeInstance[]> {
    const found = await Promise.all(this.#nodes.map((node) => this.#list(node, namespace)));
    return found.flat().toSorted((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  /** Ends an instance as if it had crashed. */
  async crash(node: string, id: string): Promise<void> {
    await run(...this.#inNode(node as Place, [...ctr, 'tasks', 'kill', '-s', 'SIGKILL', id]), { env: this.#env });
  }

  async #list(node: Place, namespace: string): Promise<readonly RuntimeInstance[]> {
    const filter = `labels."io.kubernetes.pod.namespace"==${namespace},labels."io.cri-containerd.kind"==container`;
    // one shell for all: a namespace may have hundreds. One that was removed meanwhile is no failure.
    const script = `for id in $("$@" containers list -q '${filter}'); do "$@" containers info $id || true; done; echo ,; "$@" tasks list`;
    const text = await run(...this.#inNode(node, ['sh', '-c', script, 'sh', ...ctr]), { env: this.#env });
    const [infos = '', tasks = ''] = text.split(/^,$/m);
    const running = new Set(
      tasks.split('\n').flatMap((line) => {
        const [id = '', , state] = line.trim().split(/\s+/);
        return state === 'RUNNING' ? [id] : [];
      }),
    );
    return infos
      .split(/^(?=\{)/m)
      .filter((info) => info.trim() !== '')
      .map((info) => instanceOf(JSON.parse(info) as ContainerInfo, running));
  }

  async #follow(node: Place): Promise<void> {
    while (!this.#stopped) {
      const [command, args] = this.#inNode(node, [...ctr, 'events']);
      const child = spawn(command, args, {
        env: { ...process.env, ...this.#env },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      this.#children.set(node, child);
      const ended = new Promise<void>((resolve) => {
        child.once('error', () => resolve());
        child.once('close', () => resolve());
      });
      createInterface({ input: child.stdout }).on('line', (line) => this.#read(node, line));
      await ended;
      this.#interruptedAt.set(node, [...(this.#interruptedAt.get(node) ?? []), Date.now()]);
      await pause(200);
    }
  }

  /** `2026-01-01 00:00:00.1 +0000 UTC k8s.io /tasks/exit {"container_id":…,"id":…,"exited_at":…}` */
  #read(node: Place, line: string): void {
    const [, date = '', time = '', topic = '', json = ''] = eventLine.exec(line) ?? [];
    if (topic === 'images/create') {
      const { name } = JSON.parse(json) as { readonly name: string };
      this.#images.set(`${node} ${name}`, Date.parse(`${date}T${time}Z`));
    }
    if (topic !== 'tasks/exit') return;
    const exit = JSON.parse(json) as TaskExit;
    if (exit.id !== exit.container_id) return; // a command that was run in it has ended
    this.#exits.set(exit.id, [...(this.#exits.get(exit.id) ?? []), exit.exited_at]);
  }

  #inNode(node: Place, argv: readonly string[]): [command: string, args: readonly string[]] {
    const [command = '', ...args] = commandIn(this.#instance, node, argv);
    return [command, args];
  }

  get #env(): Readonly<Record<string, string>> {
    return this.#tools?.env ?? {};
  }
}

const eventLine = /^(\S+) (\S+) \S+ UTC \S+ \/(images\/create|tasks\/exit) (\{.*)$/;

interface TaskExit {
  readonly container_id: string;
  readonly id: string;
  readonly exited_at: string;
}

interface ContainerInfo {
  readonly ID: string;
  readonly CreatedAt: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Spec?: { readonly annotations?: Readonly<Record<string, string>> };
}

function instanceOf(
  { ID: id, CreatedAt: createdAt, Labels: labels, Spec: spec }: ContainerInfo,
  running: ReadonlySet<string>,
): RuntimeInstance {
  return {
    id,
    createdAt,
    podUid: labels['io.kubernetes.pod.uid'] ?? '',
    container: labels['io.kubernetes.container.name'] ?? '',
    sandbox: spec?.annotations?.['io.kubernetes.cri.sandbox-id'] ?? '',
    running: running.has(id),
  };
}
