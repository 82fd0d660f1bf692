import { fnv1a } from '../../api/base/fnv.ts';
import { sameJson } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type { EventText } from '../../api/core/event.ts';
import { referenceOf } from '../../api/core/familiar-image.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { PullOperation } from '../../api/node-image/operation.ts';
import { findTag, isStale, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { tellEvent } from '../../kube/events.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { unlessGone } from '../../kube/moved-on.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import {
  knownWait,
  mergedStatus,
  type NextReport,
  type OpenTag,
  openTagsOf,
  type TagReport,
} from '../../plan/images/pull-images.ts';
import { nextPart } from '../../plan/text-size.ts';

/** The maximum size of a look's result as JSON, so that it fits into a history event. */
const lookBytes = 3_900;

/** The pulls of a node that are not complete. */
export type NodeImageLook =
  /** There is no NodeImage of this UID, or it is being deleted. */
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'open';
      /** The same in all parts of one look. */
      readonly resourceVersion: string;
      readonly generation: number;
      readonly waitingFor?: WaitingFor;
      /** Whether the status contains entries that the spec no longer has. */
      readonly stale: boolean;
      readonly tags: readonly OpenTag[];
      /** Whether there are more tags than these. */
      readonly more: boolean;
    };

/** The cluster worker's activities for one NodeImage. */
export interface NodeImageActivities {
  /** The tags that are not complete, after the first `skip`. */
  lookAtNodeImage(input: { readonly operation: PullOperation; readonly skip: number }): Promise<NodeImageLook>;
  /**
   * Writes these reports into the status, and Events about the pulls that have ended. Completed tags are not changed.
   */
  reportPulls(input: NextReport): Promise<void>;
}

interface NodeImageMeans {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'create'>;
  readonly now: () => Date;
}

/** Every activity may run twice, and acts only on the NodeImage of the given UID. */
export function nodeImageActivities(means: NodeImageMeans): NodeImageActivities {
  return {
    lookAtNodeImage: ({ operation: { nodeImage }, skip }) => lookAtNodeImage(nodeImage, skip, means),
    reportPulls: (report) => reportPulls(report, means),
  };
}

async function lookAtNodeImage(nodeImage: NodeRef, skip: number, { kube }: NodeImageMeans): Promise<NodeImageLook> {
  try {
    const live = await find(nodeImage, kube);
    if (live === undefined) return { kind: 'gone' };
    const left = openTagsOf(live).slice(skip);
    const waitingFor = skip === 0 ? knownWait(live) : undefined;
    const look = {
      kind: 'open',
      resourceVersion: live.metadata.resourceVersion,
      generation: live.metadata.generation ?? 0,
      ...(waitingFor && { waitingFor }),
      stale: isStale(live),
    } as const;
    const tags = nextPart(left, lookBytes - jsonBytes({ ...look, tags: [], more: true }));
    return { ...look, tags, more: tags.length < left.length };
  } catch (error) {
    throw toFailure(error, `Cannot read NodeImage "${nodeImage.name}"`);
  }
}

async function reportPulls({ nodeImage, tags, waitingFor }: NextReport, means: NodeImageMeans): Promise<void> {
  const { kube, now } = means;
  try {
    await despiteConflicts(async () => {
      const live = await find(nodeImage, kube);
      if (live === undefined) return;
      const status = mergedStatus(live, tags, waitingFor, now().getTime());
      if (sameJson(live.status, status)) return;
      const { resourceVersion } = live.metadata;
      const patch = [
        { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
        { op: 'add', path: '/status', value: status },
      ];
      await kube.patch(nodeImages, nodeImage, 'json', patch, { subresource: 'status' });
      // not awaited: nothing depends on these Events
      void tellEnds(live, tags, means);
    });
  } catch (error) {
    if (isGone(error)) return;
    throw toFailure(error, `Cannot write the status of NodeImage "${nodeImage.name}"`);
  }
}

async function find({ name, uid }: NodeRef, kube: NodeImageMeans['kube']): Promise<NodeImage | undefined> {
  const found = await unlessGone(kube.get<NodeImage>(nodeImages, { name }));
  return found?.metadata.uid === uid && found.metadata.deletionTimestamp === undefined ? found : undefined;
}

/** Writes an Event about the NodeImage for each pull that has ended, and about its jobs for each that has failed. */
async function tellEnds(live: NodeImage, tags: readonly TagReport[], { kube, now }: NodeImageMeans): Promise<void> {
  for (const report of tags.filter(({ completionTime }) => completionTime !== undefined)) {
    const what = referenceOf(report);
    const { name: host, uid } = live.metadata;
    const event = { ...endEvent(report), component: eventComponent.imagePuller, host, atMs: now().getTime() };
    const mark = `${uid.slice(0, 8)}.${fnv1a(what).toString(16)}.${report.version}`;
    await tellEvent(kube, { ...event, about: live, key: mark });
    if (report.phase !== 'Failed') continue;
    for (const owner of findTag(live, report.name, report.tag)?.ownerReferences ?? []) {
      await tellEvent(kube, { ...event, about: objectOf(owner), key: `${mark}.${host}`.slice(0, 60) });
    }
  }
}

function endEvent(report: TagReport): EventText {
  const { phase, message = '', elapsedMs = 0 } = report;
  const what = referenceOf(report);
  return phase === 'Succeeded'
    ? { type: 'Normal', reason: 'PullImageSucceed', message: `Image ${what}, ecalpsedTime ${durationText(elapsedMs)}` }
    : { type: 'Warning', reason: 'PullImageFailed', message: `Image ${what} ${message}` };
}

function objectOf(owner: NonNullable<NonNullable<ReturnType<typeof findTag>>['ownerReferences']>[number]): KubeObject {
  const { apiVersion = '', kind = '', namespace, name = '', uid = '' } = owner;
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      uid,
      resourceVersion: '',
      creationTimestamp: '',
      ...(namespace !== undefined && { namespace }),
    },
  };
}

/** In Go's format: `820ms`, `3.2s`, `1m5s`. */
function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${Number(seconds.toFixed(3))}s`;
  return `${Math.floor(seconds / 60)}m${Number((seconds % 60).toFixed(3))}s`;
}
