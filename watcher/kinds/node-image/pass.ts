import { sameJson } from '../../../api/base/json.ts';
import { timestamp } from '../../../api/base/time.ts';
import { failureTypeOf } from '../../../api/core/failure.ts';
import { getsNodeImage, type Node, readySince } from '../../../api/core/node.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { type EngineTrouble, isEngineReason } from '../../../api/engine/engine-trouble.ts';
import { commandNames, queues } from '../../../api/engine/operations.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import {
  type PullChanged,
  type PullOperation,
  pullImagesId,
  pullImagesType,
} from '../../../api/node-image/operation.ts';
import { pullWait } from '../../../api/node-image/texts.ts';
import {
  fakeNodeImageLabel,
  type ImageOwner,
  isStale,
  type NodeImage,
  nodeImages,
  openTags,
  type PullSecretRef,
} from '../../../api/node-image/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import { earliest, type PassResult } from '../../../kube/keyed-queue.ts';
import { unlessGone, unlessMovedOn } from '../../../kube/moved-on.ts';
import type { RecentlySeen } from '../../../kube/recently-seen.ts';
import { looseSecrets, pruned } from '../../../plan/images/node-image.ts';
import { waitingSince } from '../../../plan/waiting-since.ts';
import type { ControllerContext } from '../../controller.ts';
import { type CommandEvents, hasCommand, passOnCommand } from '../../operator-commands.ts';
import type { Starter, WantedOperation } from '../../starter.ts';
import type { NodeImageEdits } from './edits.ts';

export interface NodeImagePassDependencies {
  readonly kube: Pick<KubeWriter, 'get' | 'create' | 'patch' | 'delete'>;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'dismiss' | 'command' | 'isSent' | 'trouble'>;
  readonly commandEvents: CommandEvents;
  readonly config: Pick<ControllerContext['config'], 'featureGates' | 'images' | 'namespace'>;
  readonly now: () => number;
  readonly nodes: Pick<Cache<Node>, 'byName'>;
  readonly nodeImages: Pick<Cache<NodeImage>, 'byName'>;
  readonly jobs: Pick<Cache<ImagePullJob>, 'byName'>;
  readonly edits: Pick<NodeImageEdits, 'edit'>;
  /** Secrets of nodes that existed a moment ago. */
  readonly secretsSeen: RecentlySeen;
}

/** The maximum number of Secrets that one pass checks; others are left to later passes. */
const mostAskedSecrets = 256;

const nothingOpen = 'all pulls of this node have ended; create an ImagePullJob to pull an image again';

/** One pass over the NodeImage of one node, by the name of the node. */
export async function passOverNodeImage(
  name: string,
  world: NodeImagePassDependencies,
): Promise<PassResult | undefined> {
  if (!world.config.featureGates.KruiseDaemon) return undefined;
  const node = world.nodes.byName('', name);
  const nodeImage = world.nodeImages.byName('', name);
  if (nodeImage === undefined) return await create(node, world);
  if (nodeImage.metadata.deletionTimestamp !== undefined) return undefined;
  const isFake = nodeImage.metadata.labels?.[fakeNodeImageLabel] !== undefined;
  if (isWithoutNode(node) && !isFake) return await removeUnlessThere(nodeImage, world);
  if (node !== undefined) await copyLabels(nodeImage, node, world);
  const facts = await pruningFacts(nodeImage, world);
  const left = pruned(nodeImage, facts);
  if (left.spec !== nodeImage.spec) {
    // the change triggers the next pass
    await world.edits.edit(name, (live) => pruned(live, facts).spec);
    return { againInMs: 1_000 };
  }
  wantOperation(nodeImage, node, world);
  await tellTrouble(nodeImage, node, world);
  const commanded = hasCommand(nodeImage) ? await command(nodeImage, world) : undefined;
  return earliest(left, commanded);
}

/** NI-1: for a node that has been ready for a while, and on which a daemon can run. */
async function create(
  node: Node | undefined,
  { kube, config, now }: NodeImagePassDependencies,
): Promise<PassResult | undefined> {
  if (node === undefined || !getsNodeImage(node)) return undefined;
  const since = readySince(node);
  if (since === undefined) return undefined;
  const leftMs = Date.parse(since) + config.images.nodeImageDelaySeconds * 1_000 - now();
  if (leftMs > 0) return { againInMs: leftMs };
  const { name, labels } = node.metadata;
  try {
    await kube.create(nodeImages, { metadata: { name, ...(labels && { labels }) }, spec: {} });
  } catch (error) {
    // created by an earlier attempt whose answer was lost: the cache shows it soon
    if (failureTypeOf(error) !== 'Conflict') throw error;
  }
  return undefined;
}

/**
 * Deleting it loses what people have written into it, and the watch of nodes may lag behind that of NodeImages, so the
 * node is read.
 */
async function removeUnlessThere(
  { metadata }: NodeImage,
  { kube, starter }: NodeImagePassDependencies,
): Promise<PassResult | undefined> {
  const { name, uid } = metadata;
  const live = await unlessMovedOn(kube.get<Node>(kubeResource.nodes, { name }));
  if (!isWithoutNode(live)) return { againInMs: 1_000 };
  starter.forget(pullImagesId(metadata));
  await unlessMovedOn(kube.delete(nodeImages, { name }, { preconditions: { uid } }));
  return undefined;
}

/** NI-2: the labels of the node, and no others. */
async function copyLabels({ metadata }: NodeImage, node: Node, { kube }: NodeImagePassDependencies): Promise<void> {
  const { name, resourceVersion, labels = {} } = metadata;
  const wanted = node.metadata.labels ?? {};
  if (sameJson(labels, wanted)) return;
  const patch = [
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    { op: 'add', path: '/metadata/labels', value: wanted },
  ];
  await unlessMovedOn(kube.patch(nodeImages, { name }, 'json', patch));
}

/** The facts that decide which tags and Secrets have expired. */
async function pruningFacts(nodeImage: NodeImage, world: NodeImagePassDependencies) {
  const missing = await missingSecrets(nodeImage, world);
  return {
    isGone: (owner: ImageOwner) => isGone(owner, world),
    isMissing: (secret: PullSecretRef) => missing.has(secretKey(secret)),
    nowMs: world.now(),
  };
}

/** NI-5. Jobs of a namespace that is not watched count as existing. */
function isGone({ namespace = '', name = '', uid }: ImageOwner, { config, jobs }: NodeImagePassDependencies): boolean {
  if (config.namespace !== '' && namespace !== config.namespace) return false;
  return jobs.byName(namespace, name)?.metadata.uid !== uid;
}

/**
 * SEC-6. A Secret that cannot be read counts as existing, and so does one that this pass does not check: a later one
 * does.
 */
async function missingSecrets(
  nodeImage: NodeImage,
  { kube, secretsSeen, now }: NodeImagePassDependencies,
): Promise<ReadonlySet<string>> {
  const missing = new Set<string>();
  const secrets = looseSecrets(nodeImage);
  // starts at a random position, so that each is checked at some time when there are more than one pass checks
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

function wantOperation(nodeImage: NodeImage, node: Node | undefined, { starter }: NodeImagePassDependencies): void {
  const operation = operationOf(nodeImage, node, troubleOf(nodeImage, node, starter));
  if (openTags(nodeImage).length > 0 || isStale(nodeImage)) starter.want(operation);
  // it may have begun a pull that is not reported yet, and that was cancelled here
  else starter.dismiss(operation);
}

/** Why the operation does not continue. The operation itself reports a node that has been silent for long. */
function troubleOf(
  { metadata, status }: NodeImage,
  node: Node | undefined,
  starter: NodeImagePassDependencies['starter'],
): EngineTrouble | undefined {
  const shown = status?.waitingFor?.reason ?? '';
  const needs = node && shown !== 'NodeSilent' ? { node: node.metadata } : {};
  return starter.trouble(pullImagesId(metadata), shown, needs);
}

async function command(nodeImage: NodeImage, world: NodeImagePassDependencies): Promise<PassResult | undefined> {
  const isOpen = openTags(nodeImage).length > 0;
  const workflowId = pullImagesId(nodeImage.metadata);
  const receiver = isOpen
    ? ({ kind: 'running', workflowId } as const)
    : ({ kind: 'nobody', why: nothingOpen } as const);
  return await passOnCommand(nodeImage, nodeImages, commandNames, () => receiver, world);
}

/** Writes into the status why Temporal does not run the operation. */
async function tellTrouble(
  nodeImage: NodeImage,
  node: Node | undefined,
  { kube, starter, now }: NodeImagePassDependencies,
): Promise<void> {
  const { metadata, status } = nodeImage;
  const shown = status?.waitingFor?.reason;
  // a pause stays visible: the status stores it in case the operation is restarted
  if (openTags(nodeImage).length === 0 || shown === 'Paused') return;
  const trouble = troubleOf(nodeImage, node, starter);
  if (trouble === undefined) return;
  const wait = pullWait(trouble.reason, { ...trouble, since: timestamp(now()) });
  const waitingFor = waitingSince(status?.waitingFor, wait, wait.since);
  if (sameJson(waitingFor, status?.waitingFor)) return;
  const body = { metadata: { uid: metadata.uid, resourceVersion: metadata.resourceVersion }, status: { waitingFor } };
  await unlessMovedOn(kube.patch(nodeImages, { name: metadata.name }, 'merge', body, { subresource: 'status' }));
}

function operationOf(
  nodeImage: NodeImage,
  node: Node | undefined,
  trouble: EngineTrouble | undefined,
): WantedOperation {
  const { name, uid, generation = 0 } = nodeImage.metadata;
  // a node that is gone keeps its name in the name of the task queue, which nobody polls: that is detected as its
  // silence
  const nodeRef = { name, uid: node?.metadata.uid ?? `gone-${name}` };
  const argument: PullOperation = { nodeImage: { name, uid }, node: nodeRef };
  const change: PullChanged = { node: nodeRef };
  const shown = nodeImage.status?.waitingFor?.reason;
  // not as long as it would be written over again at once
  const isStill = shown === 'EngineNoDaemon' && trouble?.reason === shown;
  const isWrittenOver = isEngineReason(shown) && !isStill;
  return {
    workflowId: pullImagesId(nodeImage.metadata),
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
