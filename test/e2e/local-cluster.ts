import { spawn } from 'node:child_process';
import { createReadStream, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '@temporalio/client';
import type { KubeObject } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { busyboxImage } from '../../deploy/local/base-images.ts';
import { ensureDebianTools } from '../../deploy/local/debian.ts';
import { type Image, pushImages } from '../../deploy/local/images.ts';
import { findInstance, type Instance, instanceName, repository } from '../../deploy/local/instance.ts';
import { commandIn, type Place } from '../../deploy/local/namespaces.ts';
import { freezePart, killPart, partReady, readParts, startPart, stopPart, thawPart } from '../../deploy/local/parts.ts';
import { status } from '../../deploy/local/platform.ts';
import { silentProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { toolPath } from '../../deploy/local/tools.ts';
import { type Cluster, connectToCluster } from '../support/cluster.ts';
import { readAsKubectl } from '../support/json-reads.ts';
import { isLate, unlessLate } from '../support/patience.ts';
import { connectToTemporal } from '../support/temporal-connection.ts';
import { waitFor } from '../support/wait.ts';

/** The output of a command. */
export interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One instance of a container, in the runtime of its node. */
export interface RuntimeContainer {
  readonly id: string;
  readonly name: string;
  readonly createdAt: string;
  readonly running: boolean;
}

/** A cluster with real nodes and Windlass, with the tools of a user. */
export interface LocalCluster {
  readonly kubeconfig: string;
  /** The API server, accessed by Windlass's own client. */
  readonly cluster: Cluster;
  /** The address at which the API server reaches processes of this machine. */
  readonly machine: string;
  readonly temporal: Client;
  /** Runs kubectl as administrator; a failure is an answer, except for timeouts, which are retried. */
  kubectl(args: readonly string[], input?: string): Promise<Answer>;
  /** The output of kubectl; a failure is an error that quotes it. What it would only read as JSON is read without it. */
  ok(args: readonly string[], input?: string): Promise<string>;
  get<T extends KubeObject>(kind: string, namespace: string, name: string): Promise<T>;
  newNamespace(): Promise<string>;
  /** A file of `deploy/samples/`, applied into a namespace. */
  applySample(file: string, namespace: string): Promise<void>;
  /** The pod once it runs and all its containers are ready. */
  readyPod(namespace: string, name: string): Promise<Pod>;
  /** Every instance that the runtime still knows of this pod, oldest first. */
  containersOf(pod: Pod): Promise<readonly RuntimeContainer[]>;
  readonly part: {
    kill(name: string): Promise<void>;
    stop(name: string): Promise<void>;
    /** Starts or, with flags, restarts it, and waits until it is ready. */
    start(name: string, flags?: readonly string[]): Promise<void>;
    freeze(name: string): void;
    thaw(name: string): void;
    /** Starts measuring the peak memory of its process; the returned function returns the growth in MB. */
    measureGrowth(name: string): () => number;
  };
  /** The size of an image in the runtime of a node, `300.1 MiB`; undefined when it does not exist. */
  imageSize(place: Place, reference: string): Promise<string | undefined>;
  /** Pushes busybox with this version to the registry. */
  pushBusybox(version: string): Promise<void>;
  /** Pushes images of the test's own to the registry. */
  pushImages(images: readonly Image[]): Promise<void>;
  /** The command line that runs a command in the network of a node. */
  commandIn(place: Place, argv: readonly string[]): readonly string[];
  /** Runs a shell script in the network of a node, and returns its output; the exit code is ignored. */
  inNode(place: string, script: string): Promise<string>;
  /** All entries of the API server's audit log about a request so far. */
  auditLog(): AsyncIterable<AuditEntry>;
  /** Deletes the namespaces of the tests: what runs in them would take the processors from the files that follow. */
  close(): Promise<void>;
}

/** An entry of the audit log: who called the API server, and how. */
export interface AuditEntry {
  readonly user: { readonly username: string; readonly groups?: readonly string[] };
  readonly userAgent?: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly responseStatus?: { readonly code?: number };
  /** RFC 3339. */
  readonly requestReceivedTimestamp?: string;
}

/** The instance that WINDLASS_INSTANCE names, which has to be up. */
export async function localCluster(): Promise<LocalCluster> {
  const name = instanceName(process.env);
  const instance = findInstance(name);
  const now = status(name);
  if (!instance || !now) throw new Error(`Instance "${name}" is down: run "npm test -- e2e"`);
  const { kubeconfig } = now;
  const debian = await ensureDebianTools(silentProgress);
  const connection = await connectToTemporal(now.temporal);
  const cluster = connectToCluster({ kubeconfig });
  const env = { ...process.env, KUBECONFIG: kubeconfig };

  async function kubectl(args: readonly string[], input = ''): Promise<Answer> {
    const [verb] = args;
    return await unlessLate(
      async (wasLate) => {
        const answer = await answerOf(toolPath('kubectl'), args, env, input);
        const isDone =
          (verb === 'create' && answer.stderr.includes('AlreadyExists')) ||
          (verb === 'delete' && answer.stderr.includes('NotFound'));
        return wasLate && isDone ? { ...answer, code: 0 } : answer;
      },
      // a command in a container may have been run already
      ({ code, stderr }) => code !== 0 && verb !== 'exec' && isLate(stderr),
    );
  }
  async function ok(args: readonly string[], input = ''): Promise<string> {
    const read = await readAsKubectl(cluster.kube, args);
    if (read !== undefined) return read;
    const { code, stdout, stderr } = await kubectl(args, input);
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }
  async function get<T extends KubeObject>(kind: string, namespace: string, object: string): Promise<T> {
    return JSON.parse(await ok(['get', kind, object, '-n', namespace, '-o', 'json'])) as T;
  }

  async function ctrIn(place: Place, args: readonly string[]): Promise<string> {
    const ctr = ['ctr', '--address', '/run/containerd/containerd.sock', '-n', 'k8s.io'];
    const [command = '', ...rest] = commandIn(instance as Instance, place, [...ctr, ...args]);
    return await run(command, rest, { env: debian.env });
  }

  return {
    kubeconfig,
    cluster,
    machine: now.machine,
    temporal: new Client({ connection }),
    kubectl,
    ok,
    get,
    newNamespace: () => cluster.newNamespace(),
    async applySample(file, namespace) {
      await ok(['apply', '-n', namespace, '-f', join(repository, 'deploy', 'samples', file)]);
    },
    async readyPod(namespace, pod) {
      return await waitFor(`pod ${pod} to be ready`, async (see) => {
        const found = see(await get<Pod>('pod', namespace, pod));
        const ready = found.status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
        return ready && found;
      });
    },
    async containersOf(pod) {
      const place = pod.spec.nodeName as Place;
      const filter = `labels."io.kubernetes.pod.uid"==${pod.metadata.uid},labels."io.cri-containerd.kind"==container`;
      const ids = (await ctrIn(place, ['containers', 'list', '-q', filter])).split('\n').filter(Boolean);
      const tasks = new Set(
        (await ctrIn(place, ['tasks', 'list'])).split('\n').flatMap((line) => {
          const [id = '', , state] = line.trim().split(/\s+/);
          return state === 'RUNNING' ? [id] : [];
        }),
      );
      const containers = await Promise.all(
        ids.map(async (id) => describeContainer(await ctrIn(place, ['containers', 'info', id]), tasks)),
      );
      return containers.toSorted((a, b) => a.createdAt.localeCompare(b.createdAt));
    },
    part: {
      kill: (part) => killPart(instance, part),
      stop: (part) => stopPart(instance, part),
      async start(part, flags) {
        await startPart(instance, part, flags);
        await partReady(instance, part);
      },
      freeze: (part) => freezePart(instance, part),
      thaw: (part) => thawPart(instance, part),
      measureGrowth(part) {
        const { pid } = readParts(instance).find((record) => record.name === part) ?? {};
        const megabytes = (field: string): number => {
          const text = readFileSync(`/proc/${pid}/status`, 'utf8');
          return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(text)?.[1] ?? Number.NaN) / 1024;
        };
        writeFileSync(`/proc/${pid}/clear_refs`, '5'); // resets the peak
        const before = megabytes('VmRSS');
        return () => megabytes('VmHWM') - before;
      },
    },
    async imageSize(place, reference) {
      const line = (await ctrIn(place, ['images', 'list', `name==${reference}`])).split('\n')[1] ?? '';
      return / (\d+\.\d+ [KMG]iB) /.exec(line)?.[1];
    },
    async pushBusybox(version) {
      await pushImages(`http://${now.registry}`, [await busyboxImage(debian, version)]);
    },
    pushImages: (images) => pushImages(`http://${now.registry}`, images),
    commandIn: (place, argv) => commandIn(instance, place, argv),
    async inNode(place, script) {
      const [command = '', ...rest] = commandIn(instance, place as Place, ['sh', '-c', `${script}\ntrue`]);
      return await run(command, rest, { env: debian.env });
    },
    auditLog: () => auditLog(instance),
    async close() {
      await cluster.removeNamespaces();
      await cluster.close();
      await connection.close();
    },
  };
}

function describeContainer(text: string, running: ReadonlySet<string>): RuntimeContainer {
  const { ID: id, CreatedAt: createdAt, Labels: labels } = JSON.parse(text) as ContainerRecord;
  return { id, name: labels['io.kubernetes.container.name'] ?? '', createdAt, running: running.has(id) };
}

interface ContainerRecord {
  readonly ID: string;
  readonly CreatedAt: string;
  readonly Labels: Readonly<Record<string, string>>;
}

async function* auditLog(instance: Instance): AsyncIterable<AuditEntry> {
  for await (const line of createInterface({ input: createReadStream(join(instance.folder, 'audit.log')) })) {
    if (line.trim() !== '') yield JSON.parse(line) as AuditEntry;
  }
}

async function answerOf(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  input: string,
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      stdout += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, stdout, stderr }));
    // a command that ends before it has read everything has its own exit code
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });
}

/** The text of a file of `deploy/samples/`. */
export async function sample(file: string): Promise<string> {
  return await readFile(join(repository, 'deploy', 'samples', file), 'utf8');
}
