/** Volumes that grow with their templates (AS-90 to AS-94a): what is written to which PVC, and what is waited for. */
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { type StatefulSet, statefulSetMark } from '../../api/stateful-set/types.ts';
import type { VolumeClaim } from '../fleet/input.ts';
import { asSeen, type FleetPod } from '../fleet/pods.ts';
import type { FleetScene } from '../fleet/scene.ts';
import { type PodVolumes, unchangedVolumes } from '../fleet/volumes.ts';
import { hasCapacity, isOfTemplate, requestsLess, templateName } from './claim.ts';

type VolumesScene = Pick<FleetScene<StatefulSet>, 'owner' | 'input' | 'strategy' | 'isUndo'>;

/**
 * The volumes of each pod; undefined where PVCs stay as they are. AS-90: by the gate and the strategy. AS-91: in the update loop,
 * which `OnDelete` has not.
 */
export function volumesIn(
  scene: VolumesScene,
  claimOf: (template: string, pod: FleetPod) => VolumeClaim | undefined,
): FleetScene['volumes'] {
  const { owner, input, strategy } = scene;
  const { volumeClaimTemplates: templates = [], volumeClaimUpdateStrategy } = owner.spec;
  const isOn = input.gates.StatefulSetAutoResizePVCGate && volumeClaimUpdateStrategy?.type === 'OnPodRollingUpdate';
  if (!isOn || strategy.isOnDelete || templates.length === 0) return undefined;
  const known = new Map<FleetPod, PodVolumes>();
  return (pod) => {
    const volumes = known.get(pod) ?? volumesOf(scene, pod, claimOf);
    known.set(pod, volumes);
    return volumes;
  };
}

function volumesOf(
  { owner, input, isUndo }: VolumesScene,
  pod: FleetPod,
  claimOf: (template: string, pod: FleetPod) => VolumeClaim | undefined,
): PodVolumes {
  const all = (owner.spec.volumeClaimTemplates ?? []).flatMap((template) => {
    const claim = claimOf(templateName(template), pod);
    return claim ? [{ claim, template }] : [];
  });
  const pairs = all.filter(({ claim }) => claim.metadata.deletionTimestamp === undefined);
  const isInDoubt = ({ metadata }: VolumeClaim) => input.unanswered?.has(metadata.uid) === true;
  const different = pairs.find(({ claim, template }) => !isOfTemplate(claim, template));
  const growing = pairs.filter(({ claim, template }) => !requestsLess(claim, template) && !hasCapacity(claim));
  const names = (of: typeof pairs) => of.map(({ claim }) => claim.metadata.name);
  // one that is being deleted is there as long as its pod
  const isExpanding = all.some(({ claim }) => !hasCapacity(claim) || isInDoubt(claim));
  // an undo takes pods back, for which it waits for no PVC, and no PVC gets smaller
  if (isUndo) return { ...unchangedVolumes, spendsBudget: isExpanding };
  return {
    ...(different && { differs: different.claim.metadata.name }),
    due: pairs.filter(({ claim, template }) => requestsLess(claim, template)).map((pair) => resize(owner, pod, pair)),
    resizing: names(growing.filter(({ claim }) => !isFileSystemPending(claim))),
    fileSystemPending: names(growing.filter(({ claim }) => isFileSystemPending(claim))),
    spendsBudget: different !== undefined || isExpanding,
  };
}

/** AS-92. What the template does not name stays as it is. */
function resize(
  owner: VolumesScene['owner'],
  { pod }: FleetPod,
  { claim, template }: { readonly claim: VolumeClaim; readonly template: JsonObject },
): PodVolumes['due'][number] {
  const { resources = {} } = objectOr(template.spec);
  const metadata = { annotations: { [statefulSetMark.claimOf]: owner.metadata.name } };
  return { kind: 'resizeClaim', pod: asSeen(pod), claim: asSeen(claim), patch: { metadata, spec: { resources } } };
}

function isFileSystemPending({ status }: VolumeClaim): boolean {
  return (
    status?.conditions?.some(({ type, status: is }) => type === 'FileSystemResizePending' && is === 'True') === true
  );
}
