import { fnv1a } from '../../api/base/fnv.ts';
import { sameJson } from '../../api/base/json.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { referenceOf } from '../../api/core/familiar-image.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import type { NodeRef } from '../../api/core/refs.ts';
import { eventComponent } from '../../api/core/well-known.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import type { PullOperation } from '../../api/node-image/operation.ts';
import { findTag, isStale, type NodeImage, nodeImages } from '../../api/node-image/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone, toFailure } from '../../kube/failures.ts';
import { despiteConflicts } from '../../kube/retry-on-conflict.ts';
import {
  knownWait,
  mergedStatus,
  type NextReport,
  type OpenTag,
  openTagsOf,
  type TagReport,
} from '../../workflows/plan/images/pull-images.ts';
import { nextPart } from '../../workflows/plan/text-size.ts';
import { recordEvent } from './events.ts';

/** The most that one look answers as JSON, all of it counted, so that it fits into a history event. */
const lookBytes = 3_900;

/** What is open on a node now. */
export type NodeImageLook =
  /** No NodeImage of this UID, or one that is being deleted. */
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'open';
      /** Parts of one look have the same. */
      readonly resourceVersion: string;
      readonly generation: number;
      readonly waitingFor?: WaitingFor;
      /** The status speaks of what the spec does not have any more. */
      readonly stale: boolean;
      readonly tags: readonly OpenTag[];
      /** Whether there are more than these. */
      readonly more: boolean;
    };

/** What the cluster worker does for one NodeImage at the API server. */
export interface NodeImageActivities {
  /** What has not ended, after the first `skip`. */
  lookAtNodeImage(input: { readonly operation: PullOperation; readonly skip: number }): Promise<NodeImageLook>;
  /** Writes these reports into the status, and tells of ends in Events. What has ended stays. */
  reportPulls(input: NextReport): Promise<void>;
}

/** Every activity may run twice and acts on the NodeImage of the given UID only. */
export function nodeImageActivities({
  kube,
  now,
}: {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'create'>;
  readonly now: () => Date;
}): NodeImageActivities {
  async function find({ name, uid }: NodeRef): Promise<NodeImage | undefined> {
    try {
      const found = await kube.get<NodeImage>(nodeImages, { name });
      return found.metadata.uid === uid && found.metadata.deletionTimestamp === undefined ? found : undefined;
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  return {
    async lookAtNodeImage({ operation: { nodeImage }, skip }) {
      try {
        const live = await find(nodeImage);
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
    },

    async reportPulls({ nodeImage, tags, waitingFor }) {
      const attempted = `Cannot write the status of NodeImage "${nodeImage.name}"`;
      try {
        await despiteConflicts(async () => {
          const live = await find(nodeImage);
          if (live === undefined) return;
          const status = mergedStatus(live, tags, waitingFor, now().getTime());
          if (sameJson(live.status, status)) return;
          const { resourceVersion } = live.metadata;
          const patch = [
            { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
            { op: 'add', path: '/status', value: status },
          ];
          await kube.patch(nodeImages, nodeImage, 'json', patch, { subresource: 'status' });
          // not waited for: nobody depends on them
          void tell(live, tags);
        });
      } catch (error) {
        if (isGone(error)) return;
        throw toFailure(error, attempted);
      }
    },
  };

  async function tell(live: NodeImage, tags: readonly TagReport[]): Promise<void> {
    for (const report of tags.filter(({ completionTime }) => completionTime !== undefined)) {
      const { version, phase, message = '', elapsedMs = 0 } = report;
      const what = referenceOf(report);
      const event =
        phase === 'Succeeded'
          ? ({
              type: 'Normal',
              reason: 'PullImageSucceed',
              message: `Image ${what}, ecalpsedTime ${durationText(elapsedMs)}`,
            } as const)
          : ({ type: 'Warning', reason: 'PullImageFailed', message: `Image ${what} ${message}` } as const);
      const shared = {
        ...event,
        component: eventComponent.imagePuller,
        host: live.metadata.name,
        at: now(),
      };
      const mark = `${live.metadata.uid.slice(0, 8)}.${fnv1a(what).toString(16)}.${version}`;
      await recordEvent(kube, { ...shared, about: live, key: mark });
      if (phase !== 'Failed') continue;
      for (const owner of findTag(live, report.name, report.tag)?.ownerReferences ?? []) {
        await recordEvent(kube, {
          ...shared,
          about: objectOf(owner),
          key: `${mark}.${live.metadata.name}`.slice(0, 60),
        });
      }
    }
  }
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

/** As Go prints durations: `820ms`, `3.2s`, `1m5s`. */
function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${Number(seconds.toFixed(3))}s`;
  return `${Math.floor(seconds / 60)}m${Number((seconds % 60).toFixed(3))}s`;
}
