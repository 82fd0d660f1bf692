import { Metadata } from '@grpc/grpc-js';
import type { ImageRuntime } from '../../activities/cri/image-runtime.ts';
import {
  type ContainerRuntime,
  type ContainerState,
  CriError,
  criLabel,
  type RuntimeContainer,
  type RuntimeContainerStatus,
} from '../../activities/cri/runtime.ts';
import type { ProbeRuntime } from '../probes/runtime.ts';
import { type Call, printedEnvironment, recordedEnvironment } from './environment.ts';
import { type CriConnection, connect, longestOutput, streamed, tooMuchPrinted, unary, unaryWith } from './grpc.ts';
import { pullErrorOf } from './pull-errors.ts';
import { type ContentStore, fromPlace, layerDigest, PullWatches } from './pull-watch.ts';
import type * as wire from './wire.ts';

/** Deadlines in milliseconds (ND 5.2). For a command or a stop, the time that the caller allows is added to `call`. */
export const criDeadlines: CriDeadlines = {
  call: 5_000,
  imageFsInfo: 10_000,
  // kruise-daemon has no deadline here. A runtime that never answers must not block the detection of others.
  listImages: 60_000,
};

export interface CriDeadlines {
  readonly call: number;
  readonly imageFsInfo: number;
  readonly listImages: number;
}

/** What a runtime says about itself. */
export interface RuntimeVersion {
  readonly runtimeName: string;
  readonly runtimeVersion: string;
  readonly runtimeApiVersion: string;
}

/**
 * A connection to one runtime over its Unix socket, and a second one for commands. Both reconnect by themselves, so a
 * runtime is used again within a second of its return; until then calls fail at once as `unreachable`.
 */
export interface CriClient extends Omit<ContainerRuntime, 'name'>, Omit<ImageRuntime, 'name'>, ProbeRuntime {
  version(): Promise<RuntimeVersion>;
  imageFsInfo(): Promise<void>;
  listImages(): Promise<number>;
  close(): void;
}

/** Prepares the connections; the socket need not exist yet. */
export function createCriClient(socketPath: string, deadlines: CriDeadlines = criDeadlines): CriClient {
  const client = connect(socketPath);
  // the size limit of answers is a property of the connection
  const commands = connect(socketPath, longestOutput);
  const call: Call = (name, request, deadlineMs = deadlines.call, signal = undefined) =>
    unary(name === 'ExecSync' ? commands : client, name, request, deadlineMs, signal);
  return {
    ...nodeCalls(call, deadlines),
    ...containerCalls(call, deadlines),
    ...commandCalls(call, deadlines),
    ...imageCalls(call, deadlines),
    watchPull: pullWatcher(new PullWatches(contentStore(client, deadlines.call))),
    close() {
      client.close();
      commands.close();
    },
  };
}

/** The calls that the detection of runtimes makes. */
function nodeCalls(call: Call, deadlines: CriDeadlines): Pick<CriClient, 'version' | 'imageFsInfo' | 'listImages'> {
  return {
    async version() {
      const answer = await call('Version', { version: '0.1.0' });
      const { runtimeName, runtimeVersion, runtimeApiVersion } = answer;
      return { runtimeName, runtimeVersion, runtimeApiVersion };
    },

    async imageFsInfo() {
      await call('ImageFsInfo', {}, deadlines.imageFsInfo);
    },

    async listImages() {
      const answer = await call('ListImages', {}, deadlines.listImages);
      return answer.images.length;
    },
  };
}

type ContainerCalls = 'listContainers' | 'containerStatus' | 'environment' | 'sandboxIp' | 'stopContainer';

function containerCalls(call: Call, deadlines: CriDeadlines): Pick<CriClient, ContainerCalls> {
  return {
    async listContainers({ podUid, id }) {
      const filter = {
        ...(id === undefined ? {} : { id }),
        ...(podUid === undefined ? {} : { labelSelector: { [criLabel.podUid]: podUid } }),
      };
      const answer = await call('ListContainers', { filter });
      return (
        answer.containers
          .map(toContainer)
          // containerd matches IDs by prefix, and not every runtime supports the filter
          .filter((container) => id === undefined || container.id === id)
          .filter((container) => podUid === undefined || container.labels[criLabel.podUid] === podUid)
      );
    },

    async containerStatus(id) {
      const answer = await unlessNotFound(call('ContainerStatus', { containerId: id, verbose: false }));
      return answer === undefined || answer.status === null ? undefined : toContainerStatus(answer.status);
    },

    async environment(id, names) {
      const answer = await unlessNotFound(call('ContainerStatus', { containerId: id, verbose: true }));
      if (answer === undefined) return undefined;
      return recordedEnvironment(answer.info, names) ?? (await printedEnvironment(call, id, names));
    },

    async sandboxIp(sandboxId) {
      const answer = await call('PodSandboxStatus', { podSandboxId: sandboxId, verbose: false });
      return answer.status?.network?.ip || undefined;
    },

    async stopContainer(id, graceSeconds) {
      const deadlineMs = graceSeconds * 1_000 + deadlines.call;
      await call('StopContainer', { containerId: id, timeout: graceSeconds }, deadlineMs);
    },
  };
}

/** Commands in containers, over their own connection. */
function commandCalls(call: Call, deadlines: CriDeadlines): Pick<CriClient, 'execSync' | 'execProbe'> {
  return {
    async execSync(id, command) {
      try {
        const answer = await call('ExecSync', { containerId: id, cmd: command, timeout: 0 }, Number.POSITIVE_INFINITY);
        return { exitCode: answer.exitCode };
      } catch (error) {
        // the runtime answers when the command has ended; its exit code is lost, and must not count as a failure
        if (error instanceof CriError && error.message === tooMuchPrinted) return { exitCode: 0 };
        throw error;
      }
    },

    async execProbe(id, command, timeoutSeconds) {
      const request = { containerId: id, cmd: command, timeout: timeoutSeconds };
      const answer = await call('ExecSync', request, timeoutSeconds * 1_000 + deadlines.call);
      return { exitCode: answer.exitCode, stdout: beginning(answer.stdout), stderr: beginning(answer.stderr) };
    },
  };
}

function imageCalls(call: Call, deadlines: CriDeadlines): Pick<CriClient, 'imageId' | 'imageFolder' | 'pullImage'> {
  return {
    async imageId(reference) {
      const answer = await call('ImageStatus', { image: { image: reference }, verbose: false });
      return answer.image?.id || undefined;
    },

    async imageFolder() {
      const answer = await call('ImageFsInfo', {}, deadlines.imageFsInfo);
      return answer.imageFilesystems[0]?.fsId?.mountpoint || undefined;
    },

    async pullImage({ reference, auth, labels, annotations, timeoutMs, signal }) {
      const request = {
        image: { image: reference },
        ...(auth && { auth }),
        sandboxConfig: { labels, annotations },
      };
      try {
        return (await call('PullImage', request, timeoutMs, signal)).imageRef;
      } catch (error) {
        throw pullErrorOf(error, signal);
      }
    },
  };
}

/** Reports the bytes of pulls, unless the runtime does not support it. */
function pullWatcher(watches: PullWatches): CriClient['watchPull'] {
  /** The runtime is not containerd, so it is not asked again. */
  let tellsNoBytes = false;
  return (reference) => {
    const watch = watches.watch(reference);
    return {
      async look() {
        if (tellsNoBytes) return undefined;
        try {
          return await watch.look();
        } catch (error) {
          if (!(error instanceof CriError)) throw error;
          tellsNoBytes = error.failure === 'unimplemented';
          return undefined;
        }
      },
      end: watch.end,
    };
  };
}

/** containerd's content store, in the namespace of its CRI plugin. */
function contentStore(client: CriConnection, deadlineMs: number): ContentStore {
  const metadata = new Metadata();
  metadata.set('containerd-namespace', 'k8s.io');
  return {
    async underWay() {
      const options = { deadlineMs, metadata };
      const answer = await unaryWith<wire.ListStatusesResponse>(client, 'ListStatuses', { filters: [] }, options);
      const layers = answer.statuses.flatMap(({ ref, offset }) => {
        const digest = layerDigest(ref);
        return digest === undefined ? [] : [[digest, Number(offset)] as const];
      });
      return new Map(layers);
    },

    async blobsOf(place) {
      const request = { filters: [fromPlace(place)] };
      const parts = await streamed<wire.ListContentResponse>(client, 'List', request, { deadlineMs, metadata });
      return parts.flatMap(({ info }) => info.map(({ digest, size }) => ({ digest, size: Number(size) })));
    },

    async read(digest) {
      const parts = await streamed<wire.ReadContentResponse>(client, 'Read', { digest }, { deadlineMs, metadata });
      return Buffer.concat(parts.map(({ data }) => data)).toString('utf8');
    },
  };
}

/** The part of an output that is kept. */
const outputBytes = 4_096;

function beginning(output: Uint8Array): string {
  return Buffer.from(output.buffer, output.byteOffset, Math.min(output.byteLength, outputBytes)).toString();
}

async function unlessNotFound<Answer>(call: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof CriError && error.failure === 'notFound') return undefined;
    throw error;
  }
}

function toContainer(container: wire.Container): RuntimeContainer {
  return {
    id: container.id,
    sandboxId: container.podSandboxId,
    state: toState(container.state),
    createdAtNs: BigInt(container.createdAt),
    labels: container.labels,
    annotations: container.annotations,
  };
}

function toContainerStatus(answer: wire.ContainerStatus): RuntimeContainerStatus {
  return {
    id: answer.id,
    state: toState(answer.state),
    startedAtNs: BigInt(answer.startedAt),
    exitCode: answer.exitCode,
  };
}

function toState(state: wire.ContainerState): ContainerState {
  switch (state) {
    case 'CONTAINER_CREATED':
      return 'created';
    case 'CONTAINER_RUNNING':
      return 'running';
    case 'CONTAINER_EXITED':
      return 'exited';
    default:
      return 'unknown';
  }
}
