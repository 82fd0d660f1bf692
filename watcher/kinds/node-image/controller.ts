/**
 * The controller of NodeImages: one for each ready node, with the labels of the node. It removes expired tags and
 * Secrets, and keeps the operation of the node running while something is to be pulled.
 */

import { sameJson } from '../../../api/base/json.ts';
import type { Node } from '../../../api/core/node.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type ImagePullJob, imagePullJobs } from '../../../api/image-pull-job/types.ts';
import { pullImagesType } from '../../../api/node-image/operation.ts';
import { type NodeImage, nodeImages, tagsOf } from '../../../api/node-image/types.ts';
import { RecentlySeen } from '../../../kube/recently-seen.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { operationState } from '../../operation-state.ts';
import { NodeImageEdits } from './edits.ts';
import { type NodeImagePassDependencies, passOverNodeImage } from './pass.ts';

/** The index of NodeImages by the UIDs of the jobs that own a tag of them. */
export const nodeImagesByOwner = 'ownerUid';

export const nodeImageIndexes = {
  [nodeImagesByOwner]: (nodeImage: NodeImage): readonly string[] => {
    const owners = tagsOf(nodeImage).flatMap(({ tag }) => tag.ownerReferences?.map(({ uid = '' }) => uid) ?? []);
    return [...new Set(owners)];
  },
};

/** A Secret that existed is not checked again for this long. */
const secretSeenForMs = 60_000;

/** Ensures that each node has its NodeImage, and that the images in it are pulled. */
export function nodeImageKeeper(context: ControllerContext): Controller {
  const { kube, starter, commandEvents, config, now, isLeading, cache, queue } = context;
  const images = cache<NodeImage>(nodeImages, nodeImageIndexes);
  const nodes = cache<Node>(kubeResource.nodes);
  const jobs = cache<ImagePullJob>(imagePullJobs);
  const world: NodeImagePassDependencies = {
    ...{ kube, starter, commandEvents, config, now },
    ...{ nodes, nodeImages: images, jobs },
    edits: new NodeImageEdits(kube, images),
    secretsSeen: new RecentlySeen(secretSeenForMs),
  };
  const passes = queue('node-images', (name) => passOverNodeImage(name, world));

  nodes.onChange(({ before, after }) => {
    const name = (after ?? before)?.metadata.name;
    if (name !== undefined && isLeading() && !sameNode(before, after)) passes.add(name);
  });
  images.onChange(({ before, after }) => {
    const name = (after ?? before)?.metadata.name;
    if (name !== undefined && isLeading()) passes.add(name);
  });
  jobs.onChange(({ before, after }) => {
    if (after !== undefined || before === undefined || !isLeading()) return;
    for (const { metadata } of images.byIndex(nodeImagesByOwner, before.metadata.uid)) passes.add(metadata.name);
  });
  return {
    wantAll() {
      for (const { metadata } of nodes.all()) passes.add(metadata.name);
      for (const { metadata } of images.all()) passes.add(metadata.name);
    },
    workflowTypes: [pullImagesType],
    operations: () => ({
      kind: nodeImages.kind,
      states: [...images.all()].map(({ status }) =>
        operationState((status?.pulling ?? 0) > 0 ? 'Pulling' : 'Idle', status?.waitingFor),
      ),
    }),
  };
}

function sameNode(before: Node | undefined, after: Node | undefined): boolean {
  return (
    before?.metadata.uid === after?.metadata.uid &&
    before?.metadata.deletionTimestamp === after?.metadata.deletionTimestamp &&
    sameJson(before?.metadata.labels, after?.metadata.labels) &&
    sameJson(before?.status, after?.status)
  );
}
