import { leastGraceSeconds } from '../../api/container-recreate-request/defaults.ts';
import type { EventText } from '../../api/core/event.ts';
import type { ContainerPort, LifecycleHandler } from '../../api/core/pod.ts';
import type { Clock } from './attempt.ts';
import type { NodeProgress, PreStopOutcome, StopResult } from './contract.ts';
import { type HookMeans, runPreStop } from './pre-stop.ts';
import { whyOf } from './refusals.ts';
import { type ContainerRuntime, CriError } from './runtime.ts';

/** How long a runtime may still report a container that it claims to have stopped. */
const seeGoneMs = 10_000;

/** One stop, after all checks. */
export interface Stop {
  readonly runtime: ContainerRuntime;
  readonly container: string;
  readonly containerId: string;
  readonly sandboxId: string;
  /** For preStop and SIGTERM together. */
  readonly graceSeconds: number;
  readonly preStop?: { readonly handler: LifecycleHandler; readonly ports: readonly ContainerPort[] };
}

/** How an instance is to be stopped, and on whose behalf. */
export interface StopOrder extends Pick<Stop, 'graceSeconds' | 'preStop'> {
  readonly killing: EventText;
  /** The component of the Events. */
  readonly component: string;
  /** For the log: the object that requested it. */
  readonly about: { readonly kind: string; readonly namespace: string; readonly name: string };
}

export interface StopMeans {
  readonly clock: Clock;
  readonly httpGet: HookMeans['httpGet'];
  /** Used when the runtime knows no IP, as for pods in the host's network. */
  readonly podIp: () => string | undefined;
  readonly preStopFailed: (error: string) => void;
  readonly report: (progress: NodeProgress) => void;
}

/**
 * Runs the preStop hook, stops the container, and confirms that it has exited, like the kubelet (CRR-42 to CRR-44).
 * Once begun it continues to its end: if the runtime goes away it is waited for, since only the runtime knows the
 * container's state. The hook runs once, whatever happens afterwards.
 */
export async function stopOnce(stop: Stop, means: StopMeans): Promise<StopResult> {
  const startedAtMs = means.clock.monotonicMs();
  const preStop = await hookWithinGrace(stop, means);
  // CRR-43: only whole seconds are subtracted, so a quick hook costs nothing.
  const remainingSeconds = () => {
    const usedSeconds = Math.floor((means.clock.monotonicMs() - startedAtMs) / 1_000);
    return Math.max(leastGraceSeconds, stop.graceSeconds - usedSeconds);
  };

  const failure = await bringDown(stop, remainingSeconds, means);
  const hook = preStop === undefined ? {} : { preStop };
  return failure === undefined ? { kind: 'stopped', ...hook } : { kind: 'failed', message: whyOf(failure), ...hook };
}

async function hookWithinGrace(stop: Stop, means: StopMeans): Promise<PreStopOutcome | undefined> {
  const { preStop, runtime, graceSeconds } = stop;
  if (preStop === undefined || graceSeconds <= 0) return undefined;
  means.report(progress(stop, 'RunningPreStop', `preStop may use ${graceSeconds}s`));

  const ended = new AbortController();
  const hook = runPreStop(preStop, {
    exec: (command) => runtime.execSync(stop.containerId, command),
    httpGet: means.httpGet,
    podIp: async () => (await runtime.sandboxIp(stop.sandboxId)) ?? means.podIp(),
    sleep: (seconds) => means.clock.sleep(seconds * 1_000, ended.signal),
  });
  const outcome = await Promise.race([
    hook.then(
      () => 'ran' as const,
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    ),
    // CRR-43: after the grace period the stop continues; the hook itself runs as long as the container lets it.
    means.clock.sleep(graceSeconds * 1_000, ended.signal).then(() => 'timedOut' as const),
  ]);
  ended.abort();

  if (outcome === 'timedOut') means.preStopFailed(`PreStop hook did not end within ${graceSeconds}s`);
  if (outcome instanceof Error) means.preStopFailed(`PreStop hook failed: ${outcome.message}`);
  return outcome instanceof Error ? 'failed' : outcome;
}

/** Returns why the container could not be stopped, or undefined when it has exited. */
async function bringDown(stop: Stop, remainingSeconds: () => number, means: StopMeans): Promise<string | undefined> {
  for (;;) {
    const graceSeconds = remainingSeconds();
    means.report(progress(stop, 'Stopping', `its stop signal, and SIGKILL after ${graceSeconds}s`));
    const refusal = await refusalOf(stop.runtime.stopContainer(stop.containerId, graceSeconds));
    if (refusal === undefined || refusal.failure === 'notFound') return await seeGone(stop, means);

    // The state of the container counts more than the result of the call.
    const seen = await glance(stop);
    if (seen === 'gone') return undefined;
    // CRR-44: an expired call is an error, even if the container exits later.
    if (refusal.failure === 'deadline') return refusal.message;
    // A runtime that shows the container as running has refused. One that cannot show it is shutting down or starting.
    if (refusal.failure !== 'unreachable' && seen === 'runs') return refusal.message;
    if ((await whenSeen(stop, refusal, means)) === 'gone') return undefined;
  }
}

/** The runtime reports that it stopped the container; its status has to confirm it. */
async function seeGone(stop: Stop, means: StopMeans): Promise<string | undefined> {
  const startedAtMs = means.clock.monotonicMs();
  for (let pauseMs = 20; ; pauseMs = Math.min(2 * pauseMs, 500)) {
    const seen = await glance(stop);
    if (seen === 'gone') return undefined;
    if (seen === 'runs' && means.clock.monotonicMs() - startedAtMs > seeGoneMs) {
      return `runtime reported the container as stopped, but still lists it ${seeGoneMs / 1_000}s later`;
    }
    if (seen instanceof CriError) await whenSeen(stop, seen, means);
    else await means.clock.sleep(pauseMs);
  }
}

/** Waits until the runtime shows the container, or shows that it is gone. */
async function whenSeen(stop: Stop, before: CriError, means: StopMeans): Promise<'runs' | 'gone'> {
  let seen: 'runs' | 'gone' | CriError = before;
  for (let pauseMs = 50; seen instanceof CriError; pauseMs = Math.min(2 * pauseMs, 1_000)) {
    means.report(progress(stop, 'RuntimeUnreachable', `${seen.call} of ${stop.runtime.name}: ${seen.message}`));
    await means.clock.sleep(pauseMs);
    seen = await glance(stop);
  }
  return seen;
}

async function glance({ runtime, containerId }: Stop): Promise<'runs' | 'gone' | CriError> {
  try {
    const status = await runtime.containerStatus(containerId);
    return status === undefined || status.state === 'exited' ? 'gone' : 'runs';
  } catch (error) {
    return asCriError(error);
  }
}

async function refusalOf(call: Promise<void>): Promise<CriError | undefined> {
  try {
    await call;
    return undefined;
  } catch (error) {
    return asCriError(error);
  }
}

function asCriError(error: unknown): CriError {
  if (error instanceof CriError) return error;
  throw error;
}

function progress(stop: Stop, reason: NodeProgress['reason'], message: string): NodeProgress {
  return { reason, container: stop.container, containerId: stop.containerId, message: whyOf(message) };
}
