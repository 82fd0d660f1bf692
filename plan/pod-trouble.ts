/**
 * Why a pod does not get ready, in the words of the kubelet (and of the scheduler before it): the end of every wait for a
 * pod or a container, `web-1: app: ErrImagePull: … "busybox:1.99": not found`. What goes well by itself is not said.
 */
import { barrierName } from '../api/container-launch-priority.ts';
import { parseImageReference, sameImage } from '../api/core/image-reference.ts';
import type { ContainerStatus, Pod } from '../api/core/pod.ts';
import { shortened } from './text-size.ts';

/** As JSON: the remedy before it and the names of pods have to fit into a wait, too. */
const mostTroubleBytes = 300;

/** Characters that are kept of a message; whatever is said stands in fewer. */
const longestMessage = 1_024;

/** The reason why the kubelet does not run this container, without its name; undefined: it says none. */
export function containerTrouble(pod: Pod, container: string): string | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const status = [...containerStatuses, ...initContainerStatuses].find(({ name }) => name === container);
  return status && troubleOf(pod, status);
}

/** The same of the first such container: `app: CrashLoopBackOff: exit code 1 (Error)`. `among`: of these; absent: of all. */
export function podTrouble(pod: Pod, among?: readonly string[]): string | undefined {
  const { initContainerStatuses = [], containerStatuses = [], conditions = [] } = pod.status ?? {};
  // No other container starts before these have ended.
  for (const status of [...initContainerStatuses, ...containerStatuses]) {
    if (among && containerStatuses.includes(status) && !among.includes(status.name)) continue;
    const trouble = troubleOf(pod, status);
    if (trouble !== undefined) return `${status.name}: ${trouble}`;
  }
  if (pod.spec.nodeName) return undefined;
  const unplaced = conditions.find(({ type, status }) => type === 'PodScheduled' && status === 'False');
  return unplaced?.reason && said(unplaced.reason, unplaced.message);
}

/** The same of the first such pod, with its name. */
export function troubleIn(
  pods: readonly { readonly name: string; readonly pod: Pod; readonly containers?: readonly string[] }[],
): string | undefined {
  for (const { name, pod, containers } of pods) {
    const trouble = podTrouble(pod, containers);
    if (trouble !== undefined) return `${name}: ${trouble}`;
  }
  return undefined;
}

/** What is known, as one text: `not ready: app; web-1: app: ErrImagePull: …`. */
export function joinedDetails(...details: readonly (string | undefined)[]): string {
  return details.filter(Boolean).join('; ');
}

function troubleOf(
  { metadata, spec }: Pod,
  { name, image: ran, state, lastState }: ContainerStatus,
): string | undefined {
  if (state?.terminated) {
    // Where the kubelet restarts it, it has ended for a moment only.
    const isFinal = (spec.restartPolicy ?? 'Always') !== 'Always' && state.terminated.exitCode !== 0;
    return isFinal ? exitText(state.terminated) : undefined;
  }
  const { reason, message = '' } = state?.waiting ?? {};
  if (!isTrouble(reason)) return undefined;
  // A container whose turn has not come: what it waits for has a reason of its own.
  if (reason === 'CreateContainerConfigError' && message.includes(barrierName(metadata.name))) return undefined;
  const { image = '' } = spec.containers.concat(spec.initContainers ?? []).find((one) => one.name === name) ?? {};
  if (reason === 'CrashLoopBackOff') {
    const ended = lastState?.terminated;
    if (ended?.exitCode === undefined) return reason;
    const how = `${reason}: ${exitText({ ...ended, exitCode: ended.exitCode })}`;
    if (!isAnother(ran, image)) return how;
    const [now, before] = [image, ran].map((one) => inLine(one, mostTroubleBytes / 4));
    return `${how} of ${before}, which ran before; ${now} is tried again later`;
  }
  if (!imageReasons.includes(reason)) return said(reason, message);

  // Between two attempts the kubelet repeats why the last one failed: said alike, both are one text.
  const lastError = reason === 'ImagePullBackOff' ? message.indexOf(lastPullError) : -1;
  const why = lastError < 0 ? message : message.slice(lastError + lastPullError.length);
  const hasImage = image === '' || why.slice(0, mostTroubleBytes / 2).includes(image);
  return said(lastError < 0 ? reason : 'ErrImagePull', hasImage ? why : [image, why].filter(Boolean).join(': '));
}

/**
 * Whether the container that ended had another image than the one that is to start now. The kubelet delays the start after
 * an update of the image, and calls that CrashLoopBackOff, too.
 */
function isAnother(ran: string | undefined, image: string): ran is string {
  const isNamed = ran !== undefined && !ran.startsWith('sha256:') && parseImageReference(ran) !== undefined;
  return isNamed && image !== '' && !sameImage(ran, image);
}

const lastPullError = 'ErrImagePull: ';

const imageReasons: readonly string[] = [
  ...['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull', 'ImageInspectError'],
  ...['RegistryUnavailable', 'SignatureValidationFailed'],
];

/** Whether a container waits for more than its turn. */
function isTrouble(reason: string | undefined): reason is string {
  return reason !== undefined && reason !== '' && !normalStarts.includes(reason);
}

const normalStarts: readonly string[] = ['ContainerCreating', 'PodInitializing'];

function exitText({ exitCode, reason }: { readonly exitCode: number; readonly reason?: string }): string {
  return reason ? `exit code ${exitCode} (${inLine(reason, mostTroubleBytes / 4)})` : `exit code ${exitCode}`;
}

function said(reason: string, message = ''): string {
  return inLine(message === '' ? reason : `${reason}: ${message}`, mostTroubleBytes);
}

/** Messages of runtimes have several lines. */
function inLine(text: string, mostBytes: number): string {
  return shortened(text.slice(0, longestMessage).replace(/\s+/g, ' ').trim(), mostBytes);
}

type State = Pick<ContainerStatus, 'state' | 'lastState' | 'image'>;

/** What a cache keeps of the state of a container for these texts; nothing of one that runs, or starts as it should. */
export function troubledState({ state, lastState, image }: State): State {
  if (state?.terminated) {
    const { exitCode, reason } = state.terminated;
    return exitCode === 0 ? {} : { state: { terminated: { exitCode, ...(reason !== undefined && { reason }) } } };
  }
  const { reason, message } = state?.waiting ?? {};
  if (!isTrouble(reason)) return {};
  const { exitCode, reason: how } = (reason === 'CrashLoopBackOff' && lastState?.terminated) || {};
  return {
    state: { waiting: { reason, ...(message !== undefined && { message: message.slice(0, longestMessage) }) } },
    ...(exitCode !== undefined && {
      lastState: { terminated: { exitCode, ...(how !== undefined && { reason: how }) } },
      ...(image !== undefined && { image }),
    }),
  };
}

/** The init containers that hold a pod back, as a cache keeps them. */
export function troubledInits({ status }: Pick<Pod, 'status'>): readonly ContainerStatus[] {
  return (status?.initContainerStatuses ?? []).flatMap(({ name, ready, restartCount, ...status }) => {
    const troubled = troubledState(status);
    return troubled.state ? [{ name, ready, restartCount, ...troubled }] : [];
  });
}
