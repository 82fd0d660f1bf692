// The pulls of one node: the next step of each, and their reports. Attempts, pauses and deadlines are counted from when
// a pull got its slot (NP-7), the silence of the node from its last request or answer (NI-8).

import { jsonBytes } from '../../api/base/json-bytes.ts';
import { compareGoStrings } from '../../api/base/json-go.ts';
import { timestamp } from '../../api/base/time.ts';
import { type RefusalReason, refusalWait } from '../../api/core/failure.ts';
import { type FamiliarImage, referenceOf } from '../../api/core/familiar-image.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { pullDefault } from '../../api/node-image/defaults.ts';
import { type PullWaitReason, pullMessage, pullWait } from '../../api/node-image/texts.ts';
import {
  currentTagStatus,
  type ImageTagStatus,
  type NamedTag,
  type NodeImage,
  type NodeImageStatus,
  openTags,
  type PullPhase,
  tagsOf,
  unansweredMs,
  unpullable,
} from '../../api/node-image/types.ts';
import { fitting, nextPart, shortened, waitWithin } from '../text-size.ts';
import { waitingSince } from '../waiting-since.ts';

/** Texts of runtimes and API servers are stored in histories. */
const messageBytes = 600;
const imageIdBytes = 400;
const backOffBytes = 2_500;

/** One tag to be pulled, with what the workflow has to know. */
export interface OpenTag extends FamiliarImage {
  readonly version: number;
  readonly createdAt: string;
  /** Contact the registry even if the image exists (NP-11). */
  readonly always: boolean;
  readonly timeoutSeconds: number;
  readonly backoffLimit: number;
  /** Absent: no deadline. */
  readonly deadlineSeconds?: number;
  /** When it got its slot, if it has. */
  readonly startTime?: string;
}

/** All tags of a NodeImage that can be pulled and are not complete, in order of request. */
export function openTagsOf(nodeImage: NodeImage): readonly OpenTag[] {
  return openTags(nodeImage)
    .filter((named) => unpullable(named) === undefined)
    .map((named): OpenTag => {
      const { name, tag } = named;
      const { timeoutSeconds, backoffLimit, activeDeadlineSeconds } = tag.pullPolicy ?? {};
      const status = currentTagStatus(nodeImage, named);
      return {
        name,
        tag: tag.tag,
        version: tag.version ?? 0,
        createdAt: inSeconds(tag.createdAt ?? nodeImage.metadata.creationTimestamp),
        always: tag.imagePullPolicy !== 'IfNotPresent',
        timeoutSeconds:
          timeoutSeconds !== undefined && timeoutSeconds > 0 ? timeoutSeconds : pullDefault.timeoutSeconds,
        backoffLimit: backoffLimit === undefined || backoffLimit < 0 ? pullDefault.backoffLimit : backoffLimit,
        ...(activeDeadlineSeconds !== undefined && { deadlineSeconds: activeDeadlineSeconds }),
        ...(status?.startTime !== undefined && { startTime: inSeconds(status.startTime) }),
      };
    })
    .sort((left, right) => compareGoStrings(sortKey(left), sortKey(right)));
}

/** The time without fractions of a second, of which RFC 3339 allows any number of digits. */
function inSeconds(time: string): string {
  return time.replace(/\.\d+/, '');
}

/** The wait in a NodeImage's status, cut to the size in which it would be written today. */
export function knownWait({ status }: NodeImage): WaitingFor | undefined {
  const wait = status?.waitingFor;
  return wait && waitWithin({ ...wait, since: inSeconds(wait.since) });
}

function sortKey({ createdAt, name, tag }: OpenTag): string {
  return `${createdAt} ${name} ${tag}`;
}

/** Identifies one version of one tag of a node. */
export function pullKey({ name, tag, version }: Pick<OpenTag, 'name' | 'tag' | 'version'>): string {
  return `${name} ${tag} ${version}`;
}

/** The progress of one pull. */
export interface Pull {
  readonly tag: OpenTag;
  readonly phase: PullPhase;
  /** Failed attempts, not counting those without an answer. */
  readonly failures: number;
  /** When it got its slot. */
  readonly startedAtMs?: number;
  /** When the node was last asked, or last answered. */
  readonly heardAtMs: number;
  /** The earliest time of the next attempt. */
  readonly notBeforeMs?: number;
  readonly completedAtMs?: number;
  readonly imageId?: string;
  readonly message?: string;
  /** What it waits for; absent while it has not begun. */
  readonly wait?: { readonly reason: PullWaitReason; readonly text?: string };
}

/** What the next run has to know about a pull that backs off, besides the NodeImage. */
export interface PullBackOff {
  readonly key: string;
  readonly failures: number;
  readonly notBeforeMs: number;
}

/** The back-offs of these pulls for the next run, as far as they fit. */
export function backOffsOf(pulls: Iterable<Pull>): readonly PullBackOff[] {
  const backOffs = [...pulls].flatMap(({ tag, failures, notBeforeMs = 0 }) =>
    failures > 0 ? [{ key: pullKey(tag), failures, notBeforeMs }] : [],
  );
  return fitting(backOffs, backOffBytes);
}

/** A pull that was just requested, or continued from a previous run. */
export function newPull(tag: OpenTag, before?: PullBackOff): Pull {
  const startedAtMs = tag.startTime === undefined ? undefined : Date.parse(tag.startTime);
  return {
    tag,
    phase: startedAtMs === undefined ? 'Waiting' : 'Pulling',
    failures: before?.failures ?? 0,
    heardAtMs: Date.parse(tag.createdAt),
    ...(startedAtMs !== undefined && { startedAtMs }),
    ...(before && { notBeforeMs: before.notBeforeMs, wait: { reason: 'BackingOff' } }),
  };
}

/** The next step of a pull. */
export type PullStep =
  | { readonly kind: 'ended' }
  /** Pauses after a failed attempt. */
  | { readonly kind: 'backOff'; readonly ms: number }
  | {
      readonly kind: 'attempt';
      readonly timeoutSeconds: number;
      /** How long the node may take to start it. */
      readonly silenceMs: number;
    };

/** Decides on the next step, or that the pull is over: `pull` is then its final state. */
export function nextStep(
  pull: Pull,
  nowMs: number,
  nodeSilenceMs: number,
): { readonly pull: Pull; readonly step: PullStep } {
  const { tag, startedAtMs = nowMs } = pull;
  if (pull.completedAtMs !== undefined) return { pull, step: { kind: 'ended' } };
  if (pull.failures > tag.backoffLimit) return ended(failedWith(pull, pull.message ?? '', nowMs));

  const deadlineLeftMs =
    tag.deadlineSeconds === undefined ? Number.POSITIVE_INFINITY : startedAtMs + tag.deadlineSeconds * 1_000 - nowMs;
  // NP-8
  if (deadlineLeftMs <= 0) return ended(failedWith(pull, pullMessage.deadlineExceeded, nowMs));
  const silenceLeftMs = pull.heardAtMs + unansweredMs - nowMs;
  const isSilent = pull.wait?.reason === 'NodeSilent';
  if (isSilent && silenceLeftMs <= 0) return ended(failedWith(pull, pullMessage.unanswered, nowMs));

  const pauseMs = (pull.notBeforeMs ?? nowMs) - nowMs;
  if (pauseMs > 0) return { pull, step: { kind: 'backOff', ms: Math.min(pauseMs, deadlineLeftMs) } };
  return {
    pull,
    step: {
      kind: 'attempt',
      timeoutSeconds: Math.max(1, Math.ceil(Math.min(tag.timeoutSeconds, deadlineLeftMs / 1_000))),
      silenceMs: Math.max(1_000, Math.min(nodeSilenceMs, silenceLeftMs > 0 ? silenceLeftMs : nodeSilenceMs)),
    },
  };
}

function ended(pull: Pull): { readonly pull: Pull; readonly step: PullStep } {
  return { pull, step: { kind: 'ended' } };
}

/** The pull with a slot: the node is asked now, and a silent one counts as silent until it answers. */
export function begun(pull: Pull, nowMs: number): Pull {
  const isSilent = pull.wait?.reason === 'NodeSilent';
  return {
    ...withoutWait(pull),
    phase: 'Pulling',
    startedAtMs: pull.startedAtMs ?? nowMs,
    heardAtMs: isSilent ? pull.heardAtMs : nowMs,
  };
}

/** The result of an attempt. */
export type PullNews =
  | { readonly kind: 'succeeded'; readonly imageId: string }
  | { readonly kind: 'failed'; readonly final: boolean; readonly message: string }
  | { readonly kind: 'silent' }
  /** Temporal itself was away, which says nothing about the node. */
  | { readonly kind: 'interrupted' }
  /** The runtime or the API server was away; no attempt was made. */
  | { readonly kind: 'away'; readonly reason: 'RuntimeUnreachable'; readonly message: string }
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly message: string };

/** Pauses in milliseconds: the first and the longest after a failed attempt (NP-7), and after a refusal. */
const pauseMs = { first: 1_000, most: 30_000, Denied: 10_000, Invalid: 60_000, away: 2_000 } as const;

/** The pull after this result. */
export function heard(pull: Pull, news: PullNews, nowMs: number): Pull {
  const message = 'message' in news ? shortened(news.message, messageBytes) : '';
  switch (news.kind) {
    case 'succeeded':
      return {
        ...withoutWait(pull),
        phase: 'Succeeded',
        heardAtMs: nowMs,
        completedAtMs: nowMs,
        imageId: shortened(news.imageId, imageIdBytes),
      };
    case 'failed': {
      if (news.final) return failedWith(pull, message, nowMs);
      const failures = pull.failures + 1;
      if (failures > pull.tag.backoffLimit) return failedWith(pull, message, nowMs);
      const pause = Math.min(pauseMs.first * 2 ** (failures - 1), pauseMs.most);
      return {
        ...pull,
        failures,
        heardAtMs: nowMs,
        message,
        notBeforeMs: nowMs + pause,
        wait: { reason: 'BackingOff', text: message },
      };
    }
    case 'silent':
      return { ...pull, wait: { reason: 'NodeSilent' } };
    case 'interrupted':
      return { ...pull, heardAtMs: nowMs };
    case 'away':
      return {
        ...pull,
        heardAtMs: nowMs,
        message,
        notBeforeMs: nowMs + pauseMs.away,
        wait: { reason: news.reason, text: message },
      };
    case 'refused':
      return {
        ...pull,
        heardAtMs: nowMs,
        message,
        notBeforeMs: nowMs + pauseMs[news.reason],
        wait: { reason: refusalWait(news.reason), text: message },
      };
  }
}

/** The pull as failed by an operator or a deadline. */
export function failedWith(pull: Pull, message: string, nowMs: number): Pull {
  return { ...withoutWait(pull), phase: 'Failed', completedAtMs: nowMs, message: shortened(message, messageBytes) };
}

function withoutWait(pull: Pull): Pull {
  const { wait: _, notBeforeMs: __, message: ___, ...rest } = pull;
  return rest;
}

// ----------------------------------------------------------------------------------------------------------- the status

/** The report about one tag. Small: several of them are sent together. */
export interface TagReport extends FamiliarImage {
  readonly version: number;
  readonly phase: PullPhase;
  readonly startTime?: string;
  readonly completionTime?: string;
  readonly imageId?: string;
  readonly message?: string;
  /** From when it got its slot to its end. */
  readonly elapsedMs?: number;
}

/** The report about a pull. */
export function reportOf({ tag, phase, startedAtMs, completedAtMs, imageId, message }: Pull): TagReport {
  return {
    name: tag.name,
    tag: tag.tag,
    version: tag.version,
    phase,
    ...(startedAtMs !== undefined && { startTime: timestamp(startedAtMs) }),
    ...(completedAtMs !== undefined && {
      completionTime: timestamp(completedAtMs),
      elapsedMs: completedAtMs - (startedAtMs ?? completedAtMs),
    }),
    ...(imageId !== undefined && { imageId }),
    ...(message !== undefined && { message }),
  };
}

/** Reports are sent together, as far as they and the rest of the payload fit into one event of the history. */
const reportBytes = { tags: 2_400, whole: 3_900 } as const;

/** What is written next: as many of these reports as fit together, and what the node waits for. */
export interface NextReport {
  readonly nodeImage: NodeRef;
  readonly tags: readonly TagReport[];
  /** Absent: it waits for nothing. */
  readonly waitingFor?: WaitingFor;
}

/** The first reports that fit into one event, at least one of them. */
export function nextReport(
  nodeImage: NodeRef,
  reports: readonly TagReport[],
  waitingFor: WaitingFor | undefined,
): NextReport {
  const rest = { nodeImage, tags: [], ...(waitingFor && { waitingFor }) };
  return { ...rest, tags: nextPart(reports, Math.min(reportBytes.tags, reportBytes.whole - jsonBytes(rest))) };
}

/** In order of precedence: waits that a person can end come first. */
const waitOrder: readonly PullWaitReason[] = [
  'Denied',
  'Parked',
  'NodeSilent',
  'RuntimeUnreachable',
  'ApiUnreachable',
  'BackingOff',
  'Pulling',
];

/** What the node as a whole waits for; undefined when nothing is open. */
export function nodeWaitingFor(
  pulls: Iterable<Pull>,
  context: {
    readonly node: string;
    /** Set while paused: it comes before all other waits, because the next run reads the pause from the status. */
    readonly pausedBy?: string;
    readonly before: WaitingFor | undefined;
    readonly nowMs: number;
  },
): WaitingFor | undefined {
  const open = [...pulls].filter(({ completedAtMs }) => completedAtMs === undefined);
  if (open.length === 0) return undefined;
  const since = timestamp(context.nowMs);
  const wait = waitOf(open, { ...context, since });
  return waitWithin(waitingSince(context.before, wait, since));
}

function waitOf(
  open: readonly Pull[],
  { node, pausedBy, since }: { readonly node: string; readonly pausedBy?: string; readonly since: string },
): WaitingFor {
  if (pausedBy !== undefined) {
    return pullWait('Paused', { blockedBy: [`operator/${pausedBy}`], since });
  }
  const reason = waitOrder.find((known) => open.some(({ wait }) => (wait?.reason ?? 'Pulling') === known)) ?? 'Pulling';
  const those = open.filter(({ wait }) => (wait?.reason ?? 'Pulling') === reason);
  const text = those[0]?.wait?.text;
  const blockedBy =
    reason === 'NodeSilent' || reason === 'RuntimeUnreachable'
      ? [`node/${node}`]
      : those.map(({ tag }) => `image/${referenceOf(tag)}`);
  const remedy = pullWait(reason, { blockedBy, since });
  return text === undefined || reason === 'NodeSilent' ? remedy : { ...remedy, unblock: `${remedy.unblock}: ${text}` };
}

/**
 * The status with these reports. A completed version of a tag stays complete; tags that the spec lacks are removed
 * (NI-11); tags that cannot be pulled have failed.
 */
export function mergedStatus(
  nodeImage: NodeImage,
  reports: readonly TagReport[],
  waitingFor: WaitingFor | undefined,
  nowMs: number,
): NodeImageStatus {
  const byTag = new Map(reports.map((report) => [`${report.name} ${report.tag}`, report]));
  const statuses = new Map<string, ImageTagStatus[]>();
  const phases: PullPhase[] = [];
  const named = tagsOf(nodeImage);
  for (const { name, tag } of named) {
    const trouble = unpullable({ name, tag });
    const before = nodeImage.status?.imageStatuses?.[name]?.tags?.find((status) => status.tag === tag.tag);
    const report =
      trouble === undefined ? byTag.get(`${name} ${tag.tag}`) : refusedReport({ name, tag }, trouble, timestamp(nowMs));
    const after = report && report.version === (tag.version ?? 0) ? merged(before, report) : before;
    if (after === undefined) continue;
    phases.push(after.phase);
    statuses.set(name, [...(statuses.get(name) ?? []), after]);
  }
  const count = (phase: PullPhase) => phases.filter((other) => other === phase).length;
  const imageStatuses = Object.fromEntries(
    [...statuses].map(([name, tags]) => [
      name,
      { tags: tags.toSorted((left, right) => compareGoStrings(left.tag, right.tag)) },
    ]),
  );
  return {
    desired: named.length,
    succeeded: count('Succeeded'),
    failed: count('Failed'),
    pulling: count('Pulling'),
    waiting: count('Waiting'),
    ...(statuses.size > 0 && { imageStatuses }),
    ...(waitingFor && { waitingFor }),
    observedGeneration: nodeImage.metadata.generation ?? 0,
  };
}

function refusedReport({ name, tag }: NamedTag, message: string, now: string): TagReport {
  const { tag: text, version = 0 } = tag;
  return { name, tag: text, version, phase: 'Failed', startTime: now, completionTime: now, message };
}

/** The progress that the daemon has written stays during the pull; after a failed attempt it is outdated. */
function progressOf(
  { phase, message }: TagReport,
  before: ImageTagStatus | undefined,
): Pick<ImageTagStatus, 'progress' | 'fetched'> {
  if (phase === 'Succeeded') return { progress: 100 };
  if (phase !== 'Pulling' || message !== undefined || before?.phase !== 'Pulling') return { progress: 0 };
  return { progress: before.progress ?? 0, ...(before.fetched !== undefined && { fetched: before.fetched }) };
}

function merged(before: ImageTagStatus | undefined, report: TagReport): ImageTagStatus {
  const { tag, phase, version, startTime, completionTime, imageId, message } = report;
  const isSame = before !== undefined && (before.version ?? 0) === version;
  if (isSame && before.completionTime !== undefined) return before;
  return {
    tag,
    phase,
    version,
    ...progressOf(report, isSame ? before : undefined),
    ...(startTime !== undefined && { startTime }),
    ...(completionTime !== undefined && { completionTime }),
    ...(imageId !== undefined && { imageID: imageId }),
    ...(message !== undefined && { message }),
  };
}
