import type { JsonObject } from '../../api/base/json.ts';
import { labelValueProblem } from '../../api/core/label-syntax.ts';
import type { KubeObject } from '../../api/core/meta.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import type { ControllerRevision } from '../../api/fleet/revision.ts';
import { sidecarSetLabel, whitelistKey } from '../../api/sidecar-set/marks.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import type { KubeClient } from '../../kube/client.ts';
import { isMissing, onceMore } from './look-ups.ts';
import { LookUpFailed } from './review.ts';

/** What the review of a SidecarSet reads from the API server. Failures reject with LookUpFailed. */
export interface SidecarSetLookUps {
  /** All SidecarSets, in the stored version. */
  all(signal: AbortSignal): Promise<readonly JsonObject[]>;
  /** The annotations that SidecarSets may write on pods, as JSON; undefined: there is no such list. */
  whitelist(signal: AbortSignal): Promise<string | undefined>;
  /** Whether there is a ControllerRevision of this name, or with this custom version of the SidecarSet. */
  hasRevision(asked: AskedRevision, signal: AbortSignal): Promise<boolean>;
}

export type AskedRevision = { readonly name: string } | { readonly sidecarSet: string; readonly customVersion: string };

const pageSize = 100;
/** Of one page, as JSON: about a hundred SidecarSets of the usual size. */
const pageBytes = 64 * 1024 * 1024;

/** Reads without a cache: two SidecarSets that are applied one after the other must see each other. */
export function sidecarSetLookUpsIn(client: Pick<KubeClient, 'get' | 'list'>, podNamespace: string): SidecarSetLookUps {
  async function lookUp<Result>(what: string, signal: AbortSignal, call: () => Promise<Result>): Promise<Result> {
    try {
      return await onceMore(signal, call);
    } catch (error) {
      throw new LookUpFailed(`Cannot look up ${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  async function found<Result>(call: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await call();
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }
  return {
    async all(signal) {
      const objects: JsonObject[] = [];
      for (let next: string | undefined, isFirst = true; isFirst || next !== undefined; isFirst = false) {
        const options = { limit: pageSize, continue: next, maxBytes: pageBytes, signal };
        const page = await lookUp('SidecarSets', signal, () =>
          client.list<KubeObject & JsonObject>(sidecarSets, options),
        );
        objects.push(...page.items);
        next = page.continue;
      }
      return objects;
    },
    async whitelist(signal) {
      const ref = { namespace: podNamespace, name: installation.configurationConfigMap };
      const configuration = await lookUp(`ConfigMap "${ref.namespace}/${ref.name}"`, signal, () =>
        found(() => client.get<ConfigMap>(kubeResource.configMaps, ref, { signal })),
      );
      return configuration?.data?.[whitelistKey];
    },
    async hasRevision(asked, signal) {
      const resource = kubeResource.controllerRevisions;
      if ('name' in asked) {
        const ref = { namespace: podNamespace, name: asked.name };
        const revision = await lookUp(`ControllerRevision "${asked.name}"`, signal, () =>
          found(() => client.get<ControllerRevision>(resource, ref, { signal })),
        );
        return revision !== undefined;
      }
      const { sidecarSet, customVersion } = asked;
      // It cannot be the value of a label.
      if (labelValueProblem(customVersion) !== undefined) return false;
      const labelSelector = `${sidecarSetLabel.name}=${sidecarSet},${sidecarSetLabel.customVersion}=${customVersion}`;
      const page = await lookUp('ControllerRevisions', signal, () =>
        client.list<ControllerRevision>(resource, { namespace: podNamespace, labelSelector, limit: 1, signal }),
      );
      return page.items.length > 0;
    },
  };
}

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}
