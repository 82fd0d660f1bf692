import { bytesText } from '../activities/cri/image-runtime.ts';
import type { PullReport } from '../activities/cri/pull.ts';
import { jsonPointer } from '../api/base/json.ts';
import { failureTypeOf } from '../api/core/failure.ts';
import type { NodeRef } from '../api/core/refs.ts';
import { findTagStatus, type ImageTagStatus, type NodeImage, nodeImages } from '../api/node-image/types.ts';
import type { KubeClient } from '../kube/client.ts';

/** A pull is first reported at this age, and the pulls of a node are reported at most this often. */
const everyMs = 10_000;

export interface PullReporterMeans {
  readonly kube: Pick<KubeClient, 'get' | 'patch'>;
  readonly monotonicMs: () => number;
  readonly log: { warn(fields: object, message: string): void };
  /** Absent: ten seconds. */
  readonly everyMs?: number;
}

/** What is reported about one tag while it is pulled. */
type Told = Required<Pick<ImageTagStatus, 'progress' | 'fetched'>>;

/**
 * Reports the progress of pulls on this node's NodeImage: only of long ones, all in one write, and nothing where the
 * runtime does not report it. A failed write is not repeated: the next one has newer figures.
 */
export class PullReporter {
  readonly #means: PullReporterMeans;
  readonly #everyMs: number;
  readonly #news = new Map<string, PullReport>();
  #writtenAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(means: PullReporterMeans) {
    this.#means = means;
    this.#everyMs = means.everyMs ?? everyMs;
  }

  /** Records a report; bound, so that it can be passed as a function. */
  readonly report = (report: PullReport): void => {
    if (this.#hasEnded || report.elapsedSeconds * 1_000 < this.#everyMs) return;
    const { name, tag } = report.image;
    this.#news.set(`${name} ${tag}`, report);
    if (this.#timer !== undefined) return;
    const pauseMs = this.#writtenAtMs + this.#everyMs - this.#means.monotonicMs();
    this.#timer = setTimeout(() => void this.#write(), Math.max(0, pauseMs));
    this.#timer.unref();
  };

  /** Stops writing. */
  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
  }

  async #write(): Promise<void> {
    const news = [...this.#news.values()];
    this.#news.clear();
    this.#writtenAtMs = this.#means.monotonicMs();
    try {
      for (const nodeImage of new Map(news.map((report) => [report.nodeImage.uid, report.nodeImage])).values()) {
        await this.#tell(
          nodeImage,
          news.filter((report) => report.nodeImage.uid === nodeImage.uid),
        );
      }
    } catch (error) {
      const type = failureTypeOf(error);
      // the object has changed, and its content is newer
      if (type === 'Conflict' || type === 'Superseded') return;
      this.#means.log.warn({ err: error }, 'Cannot report the progress of pulls in the NodeImage');
    } finally {
      this.#timer = undefined;
    }
  }

  async #tell({ name, uid }: NodeRef, reports: readonly PullReport[]): Promise<void> {
    const live = await this.#means.kube.get<NodeImage>(nodeImages, { name });
    if (live.metadata.uid !== uid) return;
    const patch = reports.flatMap((report) => patchFor(live, report));
    if (patch.length === 0) return;
    await this.#means.kube.patch(nodeImages, { name }, 'json', patch, { subresource: 'status' });
  }
}

/** Only for tags that are being pulled, now and when the progress was recorded. */
function patchFor(live: NodeImage, { image, version, bytes, elapsedSeconds }: PullReport): readonly object[] {
  const status = findTagStatus(live, image.name, image.tag);
  if (status?.phase !== 'Pulling' || (status.version ?? 0) !== version) return [];
  const index = live.status?.imageStatuses?.[image.name]?.tags?.indexOf(status) ?? -1;
  const told: Told = {
    // 100 % is reported by the end of the pull
    progress: Math.min(99, Math.floor((100 * bytes.fetched) / bytes.total)),
    fetched: `${bytesText(bytes)} in ${elapsedSeconds} s`,
  };
  if (index < 0 || status.fetched === told.fetched) return [];
  const path = jsonPointer('status', 'imageStatuses', image.name, 'tags', index);
  return [
    { op: 'test', path: '/metadata/uid', value: live.metadata.uid },
    { op: 'test', path: `${path}/tag`, value: image.tag },
    { op: 'test', path: `${path}/phase`, value: 'Pulling' },
    ...Object.entries(told).map(([field, value]) => ({ op: 'add', path: `${path}/${field}`, value })),
  ];
}
