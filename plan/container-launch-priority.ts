/**
 * Which containers of a pod may start now. Published keys are never removed. Of the containers that are not ready, the
 * highest priority may start, and everything above it; lower ones wait until these are ready. When every key is
 * published the launch is complete, whatever happens to the containers afterwards.
 */
import { keyOfContainer, type LaunchContainer, launchWaits } from '../api/container-launch-priority.ts';
import type { Pod } from '../api/core/pod.ts';
import { type Wait, waitFor } from './decision.ts';
import { joinedDetails, podTrouble } from './pod-trouble.ts';

/** The state of one pod. */
export interface Launch {
  /** Absent: what the kubelet says of its containers is not known. */
  readonly pod?: Pod;
  readonly containers: readonly LaunchContainer[];
  /** The keys of its ConfigMap. */
  readonly published: ReadonlySet<string>;
}

/** What to do for the pod now. */
export interface LaunchStep {
  /** Priorities to publish, highest first. */
  readonly publish: readonly number[];
  /** Whether all are published after that. */
  readonly completed: boolean;
  /** What the lower priorities wait for afterwards; absent when the launch is complete. */
  readonly waitingFor?: Wait;
}

/** The next step. Published keys are never removed (CLP-16). */
export function nextLaunch({ pod, containers, published }: Launch): LaunchStep {
  const missing = unpublished(containers, published);
  const [top, ...others] = containers.filter(({ state }) => state !== 'passed').toSorted(byPriority);
  const publish = top === undefined ? missing : missing.filter((priority) => priority >= top.priority);
  // CLP-13
  if (top === undefined || publish.length === missing.length) return { publish, completed: true };

  const awaited = [top, ...others].filter(({ priority }) => priority === top.priority);
  const ended = awaited.filter(({ state }) => state === 'ended');
  const reason = ended.length > 0 ? 'ContainerEnded' : 'ContainerNotReady';
  const names = (ended.length > 0 ? ended : awaited).map(({ name }) => name);
  const unblock = joinedDetails(launchWaits[reason], pod && podTrouble(pod, names));
  const blockedBy = names.map((name) => `container/${name}`);
  return { publish, completed: false, waitingFor: waitFor(reason, blockedBy, unblock) };
}

/** The priorities with a key that is not published, highest first. */
export function unpublished(containers: readonly LaunchContainer[], published: ReadonlySet<string>): readonly number[] {
  return prioritiesOf(containers.filter((container) => !published.has(keyOfContainer(container))));
}

/** Each priority once, highest first. */
export function prioritiesOf(containers: readonly LaunchContainer[]): readonly number[] {
  return [...new Set(containers.map(({ priority }) => priority))].toSorted((a, b) => b - a);
}

function byPriority(a: LaunchContainer, b: LaunchContainer): number {
  return b.priority - a.priority;
}
