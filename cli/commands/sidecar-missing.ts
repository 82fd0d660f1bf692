// `kubectl kruise sidecar missing`: the pods that a SidecarSet selects but that lack its containers, and on request their
// recreation.

import { compareGoStrings } from '../../api/base/json-go.ts';
import { formatSelector } from '../../api/core/label-selector.ts';
import type { OwnerReference } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { lastingReasons, type MissedReason, missedText } from '../../plan/sidecar-set/missing.ts';
import { listedSets } from '../../plan/sidecar-set/pods.ts';
import type { Cluster } from '../cluster.ts';
import { attempt } from '../failure.ts';
import { missedPods, outdatedPods, type ReadSidecarSet, readSidecarSet } from '../missed-pods.ts';
import { counted, renderTable } from '../output/table.ts';
import { controllerOf, evict, isPodReady, nameOf, recreatePod } from '../recreate-pods.ts';

export interface MissingOptions {
  readonly name: string;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Also pods with older containers that updates do not reach. */
  readonly outdated: boolean;
  readonly recreate: 'no' | 'show' | 'tryOnly' | 'really';
  /** For each pod. */
  readonly timeoutMs: number;
}

export interface MissingMeans {
  readonly cluster: Cluster;
  readonly now: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly report: (line: string) => void;
}

/** What is done, or would be done, with a pod; the words are stable. */
export type MissingAction = 'evict' | 'held' | 'leave' | 'recreated' | 'gone' | 'failed' | 'notTried';

/** A pod of the answer. */
export interface MissingPod {
  readonly namespace: string;
  readonly name: string;
  /** `Kind/name`; empty: none. */
  readonly controller: string;
  readonly reason: MissedReason | 'Outdated';
  readonly why: string;
  /** Absent without `--recreate`. */
  readonly action?: MissingAction;
  /** Why it is left alone or held, how it failed, or the name of its replacement. */
  readonly detail?: string;
}

export interface MissingAnswer {
  readonly sidecarSet: string;
  readonly pods: readonly MissingPod[];
  readonly failures: readonly string[];
}

interface Found {
  readonly pod: Pod;
  readonly owner: OwnerReference | undefined;
  readonly reason: MissingPod['reason'];
}

/** Lists the pods, and has them recreated. */
export async function missingSidecars(options: MissingOptions, means: MissingMeans): Promise<MissingAnswer> {
  const { kube } = means.cluster;
  const set = await readSidecarSet(kube, options);
  const found = await attempt(`Cannot list the pods of SidecarSet "${options.name}"`, () =>
    findPods(set, options, means),
  );
  const actions = await actOn(found, set, options, means);
  const pods = found.map((one, index): MissingPod => ({ ...described(one), ...actions[index] }));
  const failures = pods
    .filter(({ action }) => action === 'failed')
    .map(({ namespace, name, detail }) => `Cannot recreate pod "${namespace}/${name}": ${detail}`);
  return { sidecarSet: options.name, pods, failures };
}

async function findPods(
  set: ReadSidecarSet,
  { namespace, outdated }: MissingOptions,
  { cluster: { kube } }: MissingMeans,
): Promise<readonly Found[]> {
  const missed = await missedPods(set, kube);
  const old = outdated ? await outdatedPods(set, kube) : [];
  return [...missed, ...old.map((pod) => ({ pod, reason: 'Outdated' as const }))]
    .filter(({ pod }) => namespace === undefined || pod.metadata.namespace === namespace)
    .map((one) => ({ ...one, owner: controllerOf(one.pod) }))
    .toSorted((left, right) => compareGoStrings(nameOf(left.pod), nameOf(right.pod)));
}

function described({ pod: { metadata }, owner, reason }: Found): MissingPod {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    controller: owner === undefined ? '' : `${owner.kind}/${owner.name}`,
    reason,
    why:
      reason === 'Outdated'
        ? 'its containers are older, and updates of running pods do not reach it'
        : missedText[reason],
  };
}

type Action = Pick<MissingPod, 'action' | 'detail'>;

async function actOn(
  found: readonly Found[],
  set: ReadSidecarSet,
  { recreate, timeoutMs }: MissingOptions,
  means: MissingMeans,
): Promise<readonly Action[]> {
  if (recreate === 'no') return found.map(() => ({}));
  const planned = found.map((one) => ({ one, left: reasonToLeave(one) }));
  const actions = new Map<Found, Action>(
    planned.map(({ one, left }) => [
      one,
      left === undefined ? { action: recreate === 'show' ? 'evict' : 'notTried' } : { action: 'leave', detail: left },
    ]),
  );
  const { kube } = means.cluster;
  const todo = planned.filter(({ left }) => left === undefined).map(({ one }) => one);
  for (const one of recreate === 'show' ? [] : todo.toSorted(recreationOrder)) {
    if (recreate === 'tryOnly') {
      actions.set(one, await tryEviction(one, means));
      continue;
    }
    const result = await recreatePod(
      { pod: one.pod, owner: one.owner as OwnerReference },
      {
        ...means,
        kube,
        timeoutMs,
        labelSelector: formatSelector(set.spec.selector ?? {}),
        isStillMissed: (pod) => !listedSets(pod).includes(set.metadata.name),
      },
    );
    if (result.kind === 'failed') {
      actions.set(one, { action: 'failed', detail: result.why });
      break;
    }
    actions.set(one, result.kind === 'gone' ? { action: 'gone' } : { action: 'recreated', detail: result.replacement });
  }
  return found.map((one) => actions.get(one) ?? {});
}

/** As a dry run of the API server, which asks budgets and permissions. */
async function tryEviction({ pod }: Found, { cluster: { kube } }: MissingMeans): Promise<Action> {
  const answer = await attempt(`Cannot evict pod "${nameOf(pod)}"`, () => evict(pod, kube, { dryRun: true }));
  if (answer.kind === 'held') return { action: 'held', detail: answer.why };
  return { action: answer.kind === 'gone' ? 'gone' : 'evict' };
}

/** Why a pod is not evicted; undefined: it is. */
function reasonToLeave({ pod, owner, reason }: Found): string | undefined {
  if (reason !== 'Outdated' && lastingReasons.includes(reason))
    return `a new pod would lack them, too: ${missedText[reason]}`;
  if (owner === undefined) return 'it has no controller that would recreate it: delete and create it yourself';
  if (owner.kind === 'Node') return 'it is a static pod of its node';
  const { restartPolicy = 'Always' } = pod.spec;
  return restartPolicy === 'Always' ? undefined : `it runs to its end: ${owner.kind} would count it as failed`;
}

/** The pods of a controller one after the other: those that do not serve first, then from the last ordinal down. */
function recreationOrder(left: Found, right: Found): number {
  const keyOf = ({ pod, owner }: Found) => `${pod.metadata.namespace}/${owner?.kind}/${owner?.name}/${owner?.uid}`;
  return (
    compareGoStrings(keyOf(left), keyOf(right)) ||
    Number(isPodReady(left.pod)) - Number(isPodReady(right.pod)) ||
    right.pod.metadata.name.localeCompare(left.pod.metadata.name, 'en', { numeric: true })
  );
}

const actionTexts: Readonly<Record<MissingAction, string>> = {
  evict: 'would be evicted',
  held: 'would wait',
  leave: 'left alone',
  recreated: 'recreated',
  gone: 'was gone',
  failed: 'failed',
  notTried: 'not tried',
};

/** The answer for people. */
export function missingText({ sidecarSet, pods }: MissingAnswer): string {
  if (pods.length === 0) return `SidecarSet ${sidecarSet}: no pod lacks it`;
  const hasActions = pods.some(({ action }) => action !== undefined);
  const rows = pods.map(({ namespace, name, controller, why, action, detail }) => [
    ...[namespace, name, controller || '-'],
    ...(action === undefined ? [] : [`${actionTexts[action]}${detail === undefined ? '' : `: ${detail}`}`]),
    why,
  ]);
  const head = ['NAMESPACE', 'POD', 'CONTROLLER', ...(hasActions ? ['ACTION'] : []), 'WHY'];
  const verb = pods.length === 1 ? 'lacks' : 'lack';
  return `SidecarSet ${sidecarSet}: ${counted(pods.length, 'pod')} ${verb} it\n\n${renderTable(head, rows)}`;
}
