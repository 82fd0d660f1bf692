/**
 * What the watcher does for NodeImages: there is one for each node that is ready, with the labels of the node; it loses
 * what has outlived its use; and its operation runs while something is to be pulled.
 */

import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { isOfOtherSystem, isVirtual, type Node, readySince } from '../../../api/core/node.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { isEngineReason } from '../../../api/engine/engine-trouble.ts';
import { commandNames, queues } from '../../../api/engine/operations.ts';
import { type ImagePullJob, imagePullJobs } from '../../../api/image-pull-job/types.ts';
import {
  type PullChanged,
  type PullOperation,
  pullImagesId,
  pullImagesType,
} from '../../../api/node-image/operation.ts';
import {
  fakeNodeImageLabel,
  type ImageOwner,
  isStale,
  type NodeImage,
  nodeImages,
  openTags,
  type PullSecretRef,
  pullWait,
  tagsOf,
} from '../../../api/node-image/types.ts';
import type { PassResult } from '../../../kube/keyed-queue.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import { RecentlySeen } from '../../../kube/recently-seen.ts';
import { looseSecrets, pruned } from '../../../workflows/plan/images/node-image.ts';
import { waitingSince } from '../../../workflows/plan/waiting-since.ts';
import type { Controller, ControllerContext } from '../../controller.ts';
import { hasCommand, passOnCommand } from '../../operator-commands.ts';
import type { WantedOperation } from '../../starter.ts';
import { NodeImageEdits } from './edits.ts';

/** The index of NodeImages by the UIDs of the jobs that want something of them. */
/** A pass asks whether so many Secrets exist, and leaves the others to later ones. */
const mostAskedSecrets = 256;

export const nodeImagesByOwner = 'ownerUid';

export const nodeImageIndexes = {
  [nodeImagesByOwner]: (nodeImage: NodeImage): readonly string[] => {
    const owners = tagsOf(nodeImage).flatMap(({ tag }) => tag.ownerReferences?.map(({ uid = '' }) => uid) ?? []);
    return [...new Set(owners)];
  },
};

/** Sees that each node has its NodeImage, and that what stands in it is pulled. */
export function nodeImageKeeper(context: ControllerContext): Controller {
  const { kube, starter, config, now, isLeading, cache, queue } = context;
  const images = cache<NodeImage>(nodeImages, nodeImageIndexes);
  const nodes = cache<Node>(kubeResource.nodes);
  const jobs = cache<ImagePullJob>(imagePullJobs);
  const edits = new NodeImageEdits(kube, images);
  const passes = queue('node-images', pass);
  /** A Secret that was there is believed to be there for a minute. */
  const secretsSeen = new RecentlySeen(60_000);
  const isOn = config.featureGates.KruiseDaemon;

  nodes.onChange(({ before, after }) => {
    const name = (after ?? before)?.metadata.name;
    if (name === undefined || !isLeading()) return;
    const isSame =
      before?.metadata.uid === after?.metadata.uid &&
      before?.metadata.deletionTimestamp === after?.metadata.deletionTimestamp &&
      sameJson(before?.metadata.labels, after?.metadata.labels) &&
      sameJson(before?.status, after?.status);
    if (!isSame) passes.add(name);
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
      states: [...images.all()].map(({ status }) => ({
        phase: (status?.pulling ?? 0) > 0 ? 'Pulling' : 'Idle',
        ...(status?.waitingFor && {
          waiting: { reason: status.waitingFor.reason, sinceMs: Date.parse(status.waitingFor.since) },
        }),
      })),
    }),
  };

  async function pass(name: string): Promise<PassResult | undefined> {
    if (!isOn) return undefined;
    const node = nodes.byName('', name);
    const nodeImage = images.byName('', name);
    if (nodeImage === undefined) return await create(node);
    if (nodeImage.metadata.deletionTimestamp !== undefined) return undefined;
    if (isWithoutNode(node) && nodeImage.metadata.labels?.[fakeNodeImageLabel] === undefined) {
      // What people have written is lost for good, and the watch of nodes may be behind that of NodeImages.
      const live = await unlessMovedOn(kube.get<Node>(kubeResource.nodes, { name }));
      if (!isWithoutNode(live)) return { againInMs: 1_000 };
      starter.forget(pullImagesId(nodeImage.metadata.uid));
      await unlessMovedOn(kube.delete(nodeImages, { name }, { preconditions: { uid: nodeImage.metadata.uid } }));
      return undefined;
    }
    if (node !== undefined) await copyLabels(nodeImage, node);
    const missing = await missingSecrets(nodeImage);
    const judge = { isGone, isMissing: (secret: PullSecretRef) => missing.has(secretKey(secret)), nowMs: now() };
    const left = pruned(nodeImage, judge);
    if (left.spec !== nodeImage.spec) {
      // the change brings the next pass
      await edits.edit(name, (live) => pruned(live, judge).spec);
      return { againInMs: 1_000 };
    }
    wantOperation(nodeImage, node);
    await tellTrouble(nodeImage);
    const commanded = hasCommand(nodeImage) ? await command(nodeImage) : undefined;
    const due = [left.againInMs, commanded?.againInMs].filter((ms) => ms !== undefined);
    return due.length > 0 ? { againInMs: Math.min(...due) } : undefined;
  }

  /** NI-1: a node that has been ready for a while, and on which a daemon of ours can run. */
  async function create(node: Node | undefined): Promise<PassResult | undefined> {
    if (node === undefined || isWithoutNode(node) || isVirtual(node) || isOfOtherSystem(node)) return undefined;
    const since = readySince(node);
    if (since === undefined) return undefined;
    const leftMs = Date.parse(since) + config.images.nodeImageDelaySeconds * 1_000 - now();
    if (leftMs > 0) return { againInMs: leftMs };
    const { name, labels } = node.metadata;
    try {
      await kube.create(nodeImages, { metadata: { name, ...(labels && { labels }) }, spec: {} });
    } catch (error) {
      // a create that was answered twice: the other one is in the cache soon
      if (failureTypeOf(error) !== 'Conflict') throw error;
    }
    return undefined;
  }

  /** NI-2: those of the node, and no others. */
  async function copyLabels({ metadata }: NodeImage, node: Node): Promise<void> {
    const { name, resourceVersion, labels = {} } = metadata;
    const wanted = node.metadata.labels ?? {};
    if (sameJson(labels, wanted)) return;
    const patch = [
      { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
      { op: 'add', path: '/metadata/labels', value: wanted },
    ];
    await unlessMovedOn(kube.patch(nodeImages, { name }, 'json', patch));
  }

  /** NI-5. Of a namespace that is not watched nobody knows, so its jobs count as there. */
  function isGone({ namespace = '', name = '', uid }: ImageOwner): boolean {
    if (config.namespace !== '' && namespace !== config.namespace) return false;
    return jobs.byName(namespace, name)?.metadata.uid !== uid;
  }

  /** SEC-6. What cannot be read counts as there, and so does what there was no time to ask for: a later pass asks. */
  async function missingSecrets(nodeImage: NodeImage): Promise<ReadonlySet<string>> {
    const missing = new Set<string>();
    const secrets = looseSecrets(nodeImage);
    // chance begins, so that each has its turn where there are more than one pass asks for
    const first = Math.floor(Math.random() * secrets.length);
    let asked = 0;
    for (const secret of [...secrets.slice(first), ...secrets.slice(0, first)]) {
      const key = secretKey(secret);
      const { namespace = '', name = '' } = secret;
      if (missing.has(key) || secretsSeen.has(key, now())) continue;
      if (asked === mostAskedSecrets) break;
      asked += 1;
      try {
        if (name === '' || namespace === '') missing.add(key);
        else if (await unlessGone(kube.get(kubeResource.secrets, { namespace, name }))) secretsSeen.add(key, now());
        else missing.add(key);
      } catch (error) {
        if (failureTypeOf(error) !== 'Denied') throw error;
      }
    }
    return missing;
  }

  function wantOperation(nodeImage: NodeImage, node: Node | undefined): void {
    const operation = operationOf(nodeImage, node);
    if (openTags(nodeImage).length > 0 || isStale(nodeImage)) starter.want(operation);
    // a pull that it has begun, and not told of yet, may have been given up here
    else starter.dismiss(operation);
  }

  async function command(nodeImage: NodeImage): Promise<PassResult | undefined> {
    const isOpen = openTags(nodeImage).length > 0;
    const workflowId = pullImagesId(nodeImage.metadata.uid);
    const commanded = isOpen ? ({ kind: 'running', workflowId } as const) : ({ kind: 'nobody' } as const);
    return await passOnCommand(nodeImage, nodeImages, commandNames, commanded, { kube, starter });
  }

  async function tellTrouble(nodeImage: NodeImage): Promise<void> {
    const { metadata, status } = nodeImage;
    const shown = status?.waitingFor?.reason;
    // a pause stays in sight: the status is what keeps it should the operation begin anew
    if (openTags(nodeImage).length === 0 || shown === 'Paused') return;
    const trouble = starter.trouble(pullImagesId(metadata.uid), shown ?? '');
    if (trouble === undefined) return;
    const wait = pullWait(trouble.reason, { ...trouble, since: timestamp(now()) });
    const waitingFor = waitingSince(status?.waitingFor, wait, wait.since);
    if (sameJson(waitingFor, status?.waitingFor)) return;
    const body = { metadata: { uid: metadata.uid, resourceVersion: metadata.resourceVersion }, status: { waitingFor } };
    await unlessMovedOn(kube.patch(nodeImages, { name: metadata.name }, 'merge', body, { subresource: 'status' }));
  }
}

function operationOf(nodeImage: NodeImage, node: Node | undefined): WantedOperation {
  const { name, uid, generation = 0 } = nodeImage.metadata;
  // a node that is gone keeps its name in the queue's name, where nobody listens: its silence is then noticed
  const nodeRef = { name, uid: node?.metadata.uid ?? `gone-${name}` };
  const argument: PullOperation = { nodeImage: { name, uid }, node: nodeRef };
  const change: PullChanged = { node: nodeRef };
  const isWrittenOver = isEngineReason(nodeImage.status?.waitingFor?.reason);
  return {
    workflowId: pullImagesId(uid),
    workflowType: pullImagesType,
    taskQueue: queues.cluster,
    argument,
    change,
    inputs: JSON.stringify([generation, nodeRef.uid, isWrittenOver]),
    summary: `images of ${name}`,
    about: { kind: nodeImages.kind, namespace: '', name, node: name },
  };
}

function secretKey({ namespace = '', name = '' }: PullSecretRef): string {
  return `${namespace}/${name}`;
}

function isWithoutNode(node: Node | undefined): boolean {
  return node === undefined || node.metadata.deletionTimestamp !== undefined;
}
