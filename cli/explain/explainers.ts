import type { Resource } from '../../api/core/meta.ts';
import { type PerKind, partsOf } from '../../api/per-kind.ts';
import { cloneSetWorkload } from '../cloneset.ts';
import { daemonSetWorkload } from '../daemon-set.ts';
import { CommandFailed } from '../failure.ts';
import { kindOfWord, namedObjects, wordsOf } from '../kind-words.ts';
import { statefulSetWorkload } from '../stateful-set.ts';
import { recreateRequestExplainer } from './container-recreate-request.ts';
import type { Explainer } from './explanation.ts';
import { imageListPullJobExplainer } from './image-list-pull-job.ts';
import { imagePullJobExplainer } from './image-pull-job.ts';
import { nodeImageExplainer } from './node-image.ts';
import { podExplainer } from './pod.ts';
import { podProbeMarkerExplainer } from './pod-probe-marker.ts';
import { sidecarSetExplainer } from './sidecar-set.ts';
import { workloadExplainer } from './workload.ts';

/** The explainer of each kind. */
const explainersOfKinds: PerKind<Explainer> = {
  CloneSet: workloadExplainer(cloneSetWorkload),
  ContainerRecreateRequest: recreateRequestExplainer,
  PodProbeMarker: podProbeMarkerExplainer,
  NodePodProbe: 'none', // it has no wait: the daemon reports results, and the markers say what is missing
  ImageListPullJob: imageListPullJobExplainer,
  ImagePullJob: imagePullJobExplainer,
  NodeImage: nodeImageExplainer,
  SidecarSet: sidecarSetExplainer,
  StatefulSet: workloadExplainer(statefulSetWorkload),
  DaemonSet: workloadExplainer(daemonSetWorkload),
};

/** Every kind that can be explained. */
export const explainers: readonly Explainer[] = [...partsOf(explainersOfKinds), podExplainer];

/** The object of `KIND/NAME` or `KIND NAME`. */
export function parseObject(words: readonly string[]): {
  readonly explainer: Explainer;
  readonly versions: readonly Resource[];
  readonly name: string;
} {
  const ofOne = words[0]?.includes('/') ? 1 : 2;
  const [object] = words.length > 0 ? namedObjects(words.slice(0, ofOne)) : [];
  if (object === undefined || words.length > ofOne) {
    throw new CommandFailed(
      `one object must be specified, as KIND/NAME or KIND NAME; supported kinds: ${wordsOf(explainers)}`,
    );
  }
  const asked = kindOfWord(object.kind, explainers);
  if (asked === undefined) {
    throw new CommandFailed(`"${object.kind}" cannot be explained; supported: ${wordsOf(explainers)}`);
  }
  return { explainer: asked.kind, versions: asked.versions, name: object.name };
}
