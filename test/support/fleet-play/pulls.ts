import { windlassAnnotation } from '../../../api/core/well-known.ts';
import { type ImagePullJob, isFinished } from '../../../api/image-pull-job/types.ts';
import {
  findTag,
  findTagStatus,
  type ImageTag,
  type ImageTagStatus,
  type NodeImage,
} from '../../../api/node-image/types.ts';
import { meantNodes } from '../../../plan/images/image-pull-job.ts';
import { endedTag, nodeImage, tagOf } from '../pull-objects.ts';
import type { PlayedStore } from './store.ts';
import type { Step } from './subject.ts';

/** On the third one nobody pulls ahead. */
export const pullingNodes: readonly string[] = ['node-0', 'node-1'];
const noPulls = { desired: 0, succeeded: 0, failed: 0, pulling: 0 };

/** Nodes that pull images ahead for the workload of a play, one after the other. */
export class PlayedPulls {
  isRegistryAlive = true;
  readonly #store: PlayedStore;

  constructor(store: PlayedStore) {
    this.#store = store;
  }

  /** Nodes pull what jobs want; jobs end, and go with what they have wanted. */
  steps(): readonly Step[] {
    return this.#store.all<ImagePullJob>('job').flatMap((job): readonly Step[] => {
      const { name, uid, deletionTimestamp } = job.metadata;
      if (deletionTimestamp !== undefined) return [{ what: `job ${name} is gone`, take: () => this.#removeJob(job) }];
      if (isFinished(job)) return [];
      const image = imageIn(job);
      const tags = this.#nodesOf(job).map((node) => ({ node, tag: findTag(node, image.name, image.tag) }));
      const open = tags.filter(({ tag }) => !tag?.ownerReferences?.some((owner) => owner.uid === uid));
      if (open.length === 0) return [{ what: `job ${name} ends`, take: () => this.#endJob(job) }];
      return open.map(({ node }) => ({
        what: `${node.metadata.name} ${this.isRegistryAlive ? 'pulls' : 'fails to pull'} for ${name}`,
        take: () => this.#pull(node, job),
      }));
    });
  }

  /** What users do about images. */
  userSteps(): readonly Step[] {
    const jobs = this.#store.all<ImagePullJob>('job');
    const turn: Step = {
      what: `the registry ${this.isRegistryAlive ? 'goes away' : 'is back'}`,
      take: () => {
        this.isRegistryAlive = !this.isRegistryAlive;
      },
    };
    return [
      ...Array.from({ length: 6 }, () => turn),
      ...['100%', '50%', '1', undefined].map((share) => ({
        what: `the user waits for images on ${share ?? 'no'} nodes`,
        take: () => this.await(share),
      })),
      ...jobs.map((job) => ({ what: `the user deletes ${job.metadata.name}`, take: () => this.deleteJob(job) })),
      ...this.#store.all<NodeImage>('nodeImage').map((node) => ({
        what: `${node.metadata.name} forgets its images`,
        take: () => this.#store.put('nodeImage', nodeImage(node.metadata.name)),
      })),
    ];
  }

  /** As a person does who has mended the registry: what has failed may be tried again, by whoever wants it. */
  dropFailed(): void {
    for (const node of this.#store.all<NodeImage>('nodeImage')) {
      const left = withoutTags(node, ({ tag }) => findTagStatus(node, 'nginx', tag)?.phase !== 'Failed');
      if (left !== node) this.#store.put('nodeImage', left);
    }
  }

  deleteJob(job: ImagePullJob): void {
    if (job.metadata.deletionTimestamp !== undefined) return;
    this.#store.put('job', { ...job, metadata: { ...job.metadata, deletionTimestamp: this.#store.now } });
  }

  /** The workload waits for images on so many nodes. */
  await(share: string | undefined): void {
    const set = this.#store.get('set', 'web');
    const { [windlassAnnotation.prefetch]: _, ...annotations } = set.metadata.annotations ?? {};
    const wanted = share === undefined ? annotations : { ...annotations, [windlassAnnotation.prefetch]: share };
    this.#store.put('set', { ...set, metadata: { ...set.metadata, annotations: wanted } });
  }

  #nodesOf(job: ImagePullJob): readonly NodeImage[] {
    const nodes = this.#store.all<NodeImage>('nodeImage');
    const byName = (name: string) => nodes.find(({ metadata }) => metadata.name === name);
    return meantNodes(job, { nodeImages: nodes, byName, pods: () => this.#store.pods });
  }

  /** What is there is not pulled again, and stays there. */
  #pull(node: NodeImage, job: ImagePullJob): void {
    const { name, tag } = imageIn(job);
    const { uid } = job.metadata;
    const before = findTag(node, name, tag);
    const ownerReferences = [
      ...(before?.ownerReferences ?? []),
      { kind: 'ImagePullJob', name: job.metadata.name, uid },
    ];
    const isThere = findTagStatus(node, name, tag)?.phase === 'Succeeded';
    const phase = isThere || this.isRegistryAlive ? 'Succeeded' : 'Failed';
    this.#storeTag(node, tagOf(tag, { ownerReferences }), endedTag(tag, phase));
  }

  #storeTag(node: NodeImage, tag: ImageTag, status: ImageTagStatus): void {
    const without = withoutTags(node, (known) => known.tag !== tag.tag);
    const { images: { nginx } = {} } = without.spec;
    const told = without.status?.imageStatuses?.nginx?.tags ?? [];
    this.#store.put('nodeImage', {
      ...without,
      spec: { images: { nginx: { tags: [...(nginx?.tags ?? []), tag] } } },
      status: { ...noPulls, imageStatuses: { nginx: { tags: [...told, status] } } },
    });
  }

  #endJob(job: ImagePullJob): void {
    const { name, tag } = imageIn(job);
    const phases = this.#nodesOf(job).map((node) => findTagStatus(node, name, tag)?.phase);
    const failed = phases.filter((phase) => phase === 'Failed').length;
    const counts = { desired: phases.length, active: 0, succeeded: phases.length - failed, failed };
    this.#store.put('job', { ...job, status: { ...counts, completionTime: this.#store.now } });
  }

  #removeJob({ metadata: { name, uid } }: ImagePullJob): void {
    this.#store.remove('job', name);
    for (const node of this.#store.all<NodeImage>('nodeImage')) {
      const left = withoutTags(node, ({ ownerReferences = [] }) => ownerReferences.some((owner) => owner.uid !== uid));
      if (left !== node) this.#store.put('nodeImage', left);
    }
  }
}

/** The image of a job, as NodeImages file it. */
function imageIn({ spec }: ImagePullJob): { readonly name: string; readonly tag: string } {
  const [name = '', tag = ''] = spec.image.split(':');
  return { name, tag };
}

/** The node without the tags that are not to be kept; the same one when all are. */
function withoutTags(node: NodeImage, keep: (tag: ImageTag) => boolean): NodeImage {
  const tags = node.spec.images?.nginx?.tags ?? [];
  const kept = tags.filter(keep);
  if (kept.length === tags.length) return node;
  const told = node.status?.imageStatuses?.nginx?.tags ?? [];
  const left = told.filter((status) => kept.some(({ tag }) => tag === status.tag));
  return {
    ...node,
    spec: kept.length > 0 ? { images: { nginx: { tags: kept } } } : {},
    status: { ...noPulls, imageStatuses: { nginx: { tags: left } } },
  };
}
