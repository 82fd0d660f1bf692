/**
 * Reports the pods that SidecarSets have missed, in two fields of the status that nothing else writes. The counts of the
 * status are left alone: those of type NotUpdate must not become fresh by it (SCS-131a).
 */

import { sameJson } from '../../../api/base/json.ts';
import type { KubeObject } from '../../../api/core/meta.ts';
import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type SidecarSet, sidecarSets } from '../../../api/sidecar-set/types.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessMovedOn } from '../../../kube/moved-on.ts';
import { keptMissed, missedStatus } from '../../../plan/sidecar-set/missing.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { findMissedPods } from './missed-pods.ts';

/** Changes within this time become one write. */
const reportDelayMs = 5_000;
const seenWithinMs = 30_000;

/** Ensures that the status of each SidecarSet names the pods that it has missed. */
export function missedPodReports(context: ControllerContext, delayMs = reportDelayMs): Controller {
  const { kube, isLeading, cache, queue } = context;
  const sets = cache<SidecarSet>(sidecarSets);
  const pods = cache<Pod>(kubeResource.pods);
  const namespaces = cache<KubeObject>(kubeResource.namespaces);
  const reports = queue('missed-pods', report);
  const missed = findMissedPods({ sets, pods, namespaces }, (name) => reports.addAfter(name, delayMs));

  sets.onChange((change) => {
    if (isLeading()) missed.setChanged(change);
  });
  pods.onChange((change) => {
    if (isLeading()) missed.podChanged(change);
  });
  namespaces.onChange(({ before, after }) => {
    if (!isLeading() || sameJson(before?.metadata.labels, after?.metadata.labels)) return;
    missed.namespaceChanged((after ?? before)?.metadata.name ?? '');
  });

  async function report(name: string): Promise<PassResult | undefined> {
    const set = sets.byName('', name);
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) return undefined;
    const status = missedStatus(missed.of(name));
    if (sameJson(keptMissed(set.status), status)) return undefined;
    // The counts are required by the schema.
    if (set.status === undefined) return { againInMs: delayMs };
    const { missedPods = null, missedPodNames = null } = status;
    const body = { status: { missedPods, missedPodNames } };
    const written = await unlessMovedOn(
      kube.patch<SidecarSet>(sidecarSets, { name }, 'merge', body, { subresource: 'status' }),
    );
    if (written === undefined) return { againInMs: delayMs };
    await sets.seen(set.metadata.uid, written.metadata.resourceVersion, AbortSignal.timeout(seenWithinMs));
    return undefined;
  }

  return {
    begin: () => missed.rebuild(),
    wantAll() {
      for (const { metadata, status } of sets.all()) {
        if (!sameJson(keptMissed(status), missedStatus(missed.of(metadata.name)))) {
          reports.addAfter(metadata.name, delayMs);
        }
      }
    },
  };
}
