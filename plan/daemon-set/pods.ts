/** New pods of a DaemonSet (AD §4). */
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import { perObject } from '../../api/base/per-object.ts';
import { onNode } from '../../api/core/pod.ts';
import { daemonSetDefault, daemonSetMark } from '../../api/daemon-set/types.ts';
import { templateOf } from '../../api/fleet/revision.ts';
import { drawnId } from '../fleet/drawn-id.ts';
import { newPod } from '../fleet/new-pod.ts';
import type { Intention } from '../fleet/steps.ts';
import { tolerationsIn } from './eligible.ts';
import type { DaemonSetInput } from './input.ts';
import type { DaemonSetScene } from './scene.ts';

/**
 * A pod for this node. Its name follows from the node and from the names that are taken, so two plans for the same pods create the
 * same one. Undefined: every name that was drawn is taken.
 */
export function podFor(scene: DaemonSetScene, node: string): Extract<Intention, { kind: 'createPod' }> | undefined {
  const { resource, owner, scheme, target, input, now } = scene;
  const name = freeName(scene, node);
  if (name === undefined) return undefined;
  const { templateGeneration, podTemplateGeneration } = daemonSetMark;
  const generation = owner.metadata.annotations?.[templateGeneration];
  return newPod({
    ...{ resource, owner, scheme, name, now, suffix: '', labels: {}, claims: [], gates: input.gates },
    revision: target, // AD-17
    ...(generation !== undefined && { podLabels: { [podTemplateGeneration]: generation } }),
    state: 'none', // LC-10
    hasInPlaceGate: typeOf(scene) === 'InPlaceIfPossible',
    spec: placedOn(node, templateOf(target) ?? {}),
  });
}

function typeOf({ rollingUpdate }: DaemonSetScene) {
  return rollingUpdate.rollingUpdateType ?? daemonSetDefault.rollingUpdateType;
}

/** AD §4: in place of all that the template requires of a node, its name; and the tolerations of every such pod. */
function placedOn(node: string, template: JsonObject): JsonObject {
  const affinity = objectOr(objectOr(template.spec).affinity);
  const nodeAffinity = {
    ...objectOr(affinity.nodeAffinity),
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: [{ ...onNode(node) }] }] },
  };
  return {
    affinity: { ...affinity, nodeAffinity },
    tolerations: tolerationsIn(template).map((toleration) => ({ ...toleration })),
  };
}

/** As of a generated name. */
const longestBase = 58;

/** Draws beyond those that other pods have used up. */
const moreDraws = 64;

function freeName({ owner, input }: DaemonSetScene, node: string): string | undefined {
  const { name, uid } = owner.metadata;
  const taken = takenNames(input);
  const base = `${name}-`.slice(0, longestBase);
  const mostDraws = taken.size + (input.spentNames ?? 0) + moreDraws;
  for (let draw = 0; draw < mostDraws; draw++) {
    const podName = `${base}${drawnId(`${uid}/${node}/${draw}`)}`;
    if (!taken.has(podName) && !input.isSpent(podName)) return podName;
  }
  return undefined;
}

/** The same for every pod of a pass. */
const takenNames = perObject(({ pods, orphans = [] }: DaemonSetInput): ReadonlySet<string> => {
  return new Set([...pods, ...orphans].map(({ metadata }) => metadata.name));
});
