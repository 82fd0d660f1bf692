// A CloneSet with its revisions and pods in a real API server, without a controller.

import type { JsonObject } from '../../api/base/json.ts';
import { type CloneSet, cloneSets } from '../../api/cloneset/types.ts';
import type { Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { type ControllerRevision, newRevision } from '../../api/fleet/revision.ts';
import { newPod } from '../../plan/cloneset/pods.ts';
import { cloneSetRevisions } from '../../plan/cloneset/revisions.ts';
import type { Cluster } from './cluster.ts';

/** How the API server addresses revisions. */
export const controllerRevisions: Resource = {
  group: 'apps',
  version: 'v1',
  plural: 'controllerrevisions',
  kind: 'ControllerRevision',
  namespaced: true,
};

/** Creates the pods of a settled CloneSet: of its template, ready, with status and revision. */
export async function settle({ kube }: Cluster, set: CloneSet): Promise<readonly Pod[]> {
  const { namespace = '', name } = set.metadata;
  const revision = newRevision(cloneSetRevisions.ownerOf(set), 1);
  const stored = await kube.create<ControllerRevision>(controllerRevisions, revision);
  const now = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const replicas = set.spec.replicas ?? 1;
  const pods = await Promise.all(
    Array.from({ length: replicas }, async (_, index) => {
      const instanceId = `bbbb${'bcdfghjkl'[index]}`;
      const order = { owner: set, revision: stored, instanceId, claims: [], gates: parseFeatureGates(), now };
      const { metadata } = await kube.create<Pod>(kubeResource.pods, newPod(order).pod);
      const ref = { namespace, name: metadata.name };
      const types = ['Ready', 'ContainersReady', 'InPlaceUpdateReady'];
      const conditions = types.map((type) => ({ type, status: 'True', lastTransitionTime: now }));
      const status = { phase: 'Running', conditions };
      return await kube.patch<Pod>(kubeResource.pods, ref, 'merge', { status }, { subresource: 'status' });
    }),
  );
  const all = { replicas, readyReplicas: replicas, availableReplicas: replicas };
  const updated = { updatedReplicas: replicas, updatedReadyReplicas: replicas };
  const revisions = { currentRevision: stored.metadata.name, updateRevision: stored.metadata.name };
  const status: JsonObject = { ...all, ...updated, ...revisions, observedGeneration: set.metadata.generation ?? 1 };
  await kube.patch(cloneSets, { namespace, name }, 'merge', { status }, { subresource: 'status' });
  return pods;
}
