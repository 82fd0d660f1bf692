import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import type { JsonObject } from '../../api/base/json.ts';
import { parseQuantity } from '../../api/base/quantity.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { createCache } from '../../kube/cache.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isGone } from '../../kube/failures.ts';
import { Reflector } from '../../kube/reflector.ts';

const log = pino({ level: 'silent' });

interface Claim extends KubeObject {
  readonly spec: {
    readonly storageClassName?: string;
    readonly volumeName?: string;
    readonly accessModes: readonly string[];
    readonly resources: { readonly requests: { readonly storage: string } };
  };
  readonly status?: {
    readonly phase?: string;
    readonly capacity?: { readonly storage: string };
    readonly conditions?: readonly { readonly type: string }[];
  };
}

const volumes: Resource = {
  ...{ group: '', version: 'v1', plural: 'persistentvolumes', kind: 'PersistentVolume', namespaced: false },
};
const claims = kubeResource.persistentVolumeClaims;
const pendingCondition = 'FileSystemResizePending';

/** When a PVC got its size. */
export interface Expansion {
  readonly claim: string;
  readonly storage: string;
  readonly atMs: number;
}

/**
 * A StorageClass with a driver: it provisions folders of the nodes as volumes, and expands them, as a provisioner and a resizer of
 * CSI do. With `expandsOnMount` the size of an expanded volume is reported by `mounted` only.
 */
export class VolumeDriver {
  readonly className = `volumes-${randomUUID().slice(0, 8)}`;
  readonly #kube: KubeClient;
  readonly #expandsOnMount: boolean;
  readonly #expansions: Expansion[] = [];
  readonly #busy = new Set<string>();
  readonly #stop = new AbortController();
  #reflector: Reflector<Claim> | undefined;

  private constructor(kube: KubeClient, expandsOnMount: boolean) {
    this.#kube = kube;
    this.#expandsOnMount = expandsOnMount;
  }

  static async start(
    kube: KubeClient,
    { allowVolumeExpansion = true, expandsOnMount = false } = {},
  ): Promise<VolumeDriver> {
    const driver = new VolumeDriver(kube, expandsOnMount);
    await kube.create(kubeResource.storageClasses, {
      metadata: { name: driver.className },
      ...{ provisioner: 'test.windlass.io/folders', volumeBindingMode: 'Immediate', allowVolumeExpansion },
    });
    driver.#follow();
    return driver;
  }

  /** In the order in which they were expanded. */
  get expansions(): readonly Expansion[] {
    return this.#expansions;
  }

  /** Reports the size of a volume whose file system was to be expanded with the next mount. */
  async mounted(claim: { readonly namespace: string; readonly name: string }): Promise<void> {
    const { spec } = await this.#kube.get<Claim>(claims, claim);
    await this.#report(claim, { capacity: spec.resources.requests, conditions: [] });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reflector?.stop();
    await this.#kube.delete(kubeResource.storageClasses, { name: this.className }).catch(unlessGone);
    const { items } = await this.#kube.list<KubeObject & { readonly spec: JsonObject }>(volumes);
    const own = items.filter(({ spec }) => spec.storageClassName === this.className);
    await Promise.all(own.map(({ metadata: { name } }) => this.#kube.delete(volumes, { name }).catch(unlessGone)));
  }

  #follow(): void {
    const cache = createCache<Claim>({ onError: () => undefined });
    cache.onChange(({ after }) => {
      if (after?.spec.storageClassName === this.className) void this.#serve(after).catch(() => undefined);
    });
    this.#reflector = new Reflector({ client: this.#kube, resource: claims, cache, log });
    this.#reflector.start();
  }

  /** Conflicts and failures are followed by another event. */
  async #serve(claim: Claim): Promise<void> {
    const { uid } = claim.metadata;
    if (this.#busy.has(uid) || this.#stop.signal.aborted) return;
    this.#busy.add(uid);
    try {
      if (claim.spec.volumeName === undefined) await this.#provision(claim);
      else if (claim.status?.phase === 'Bound') await this.#expand(claim);
    } finally {
      this.#busy.delete(uid);
    }
  }

  async #provision({ metadata, spec }: Claim): Promise<void> {
    const name = `pv-${metadata.uid}`;
    const path = `/tmp/hostpath_pv/${name}`;
    const claimRef = { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid };
    await this.#kube
      .create(volumes, {
        metadata: { name },
        spec: {
          capacity: { storage: spec.resources.requests.storage },
          ...{ accessModes: spec.accessModes, storageClassName: this.className, claimRef },
          ...{ persistentVolumeReclaimPolicy: 'Retain', hostPath: { path, type: 'DirectoryOrCreate' } },
        },
      } as never)
      .catch(() => undefined);
  }

  async #expand({ metadata, spec, status }: Claim): Promise<void> {
    const { namespace = '', name } = metadata;
    const { storage } = spec.resources.requests;
    const isPending = status?.conditions?.some(({ type }) => type === pendingCondition) === true;
    const [wanted, has] = [
      parseQuantity(storage)?.nano ?? 0n,
      parseQuantity(status?.capacity?.storage ?? '')?.nano ?? 0n,
    ];
    if (wanted <= has || isPending) return;
    await this.#kube.patch(volumes, { name: spec.volumeName ?? '' }, 'merge', { spec: { capacity: { storage } } });
    this.#expansions.push({ claim: name, storage, atMs: Date.now() });
    const condition = { type: pendingCondition, status: 'True', lastTransitionTime: new Date().toISOString() };
    const report = this.#expandsOnMount ? { conditions: [condition] } : { capacity: { storage } };
    await this.#report({ namespace, name }, report);
  }

  async #report(ref: { readonly namespace: string; readonly name: string }, status: object): Promise<void> {
    await this.#kube.patch(claims, ref, 'merge', { status }, { subresource: 'status' });
  }
}

function unlessGone(error: unknown): void {
  if (!isGone(error)) throw error;
}
