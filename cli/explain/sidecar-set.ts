import { installation } from '../../api/core/well-known.ts';
import { sidecarSets, sidecarSetsV1alpha1 } from '../../api/sidecar-set/types.ts';
import { joinedDetails } from '../../plan/pod-trouble.ts';
import { missedText } from '../../plan/sidecar-set/missing.ts';
import { attempt } from '../failure.ts';
import { type MissedPod, missedPods, type ReadSidecarSet, readSidecarSet } from '../missed-pods.ts';
import type { ExplainedStep, Explainer, ExplainMeans, Explanation } from './explanation.ts';
import { explainSidecarRollOut } from './sidecar-set-roll-out.ts';

/** SidecarSets: their counts, and the pods that they select but that lack their containers. */
export const sidecarSetExplainer: Explainer = {
  versions: [sidecarSets, sidecarSetsV1alpha1],
  shortNames: [],
  explain: async (asked, means) => {
    const set = await readSidecarSet(means.kube, asked);
    return await attempt(`Cannot list the pods of SidecarSet "${asked.name}"`, () => explainSet(set, means));
  },
};

async function explainSet(set: ReadSidecarSet, means: ExplainMeans): Promise<Explanation> {
  const { kube } = means;
  const { headline, ...rollOut } = await explainSidecarRollOut(set, means);
  const missed = await missedPods(set, kube);
  const { name, generation = 0 } = set.metadata;
  const { matchedPods = 0, updatedPods = 0, readyPods = 0, latestRevision } = set.status ?? {};
  const isPaused = set.spec.injectionStrategy?.paused === true;
  const counts = `${matchedPods} pods have it, ${updatedPods} of them the current content, ${readyPods} are ready`;
  const observed = set.status?.observedGeneration;
  return {
    kind: sidecarSets.kind,
    namespace: '',
    name,
    summary: set.status === undefined ? 'not counted yet' : joinedDetails(headline, counts, `${missed.length} lack it`),
    ...rollOut,
    steps: [...rollOut.steps, ...missed.map(stepOf)],
    commands: [
      ...rollOut.commands,
      {
        command: `kubectl get controllerrevisions -n ${installation.namespace} -l kruise.io/sidecarset-name=${name}`,
        effect: 'shows the contents that new pods can get',
      },
      ...(missed.length > 0
        ? [
            {
              command: `kubectl kruise sidecar missing ${name} --recreate --dry-run`,
              effect: 'shows which of these pods their owners would recreate',
            },
          ]
        : []),
    ],
    notes: [
      ...(isPaused ? ['spec.injectionStrategy.paused is true: nothing is injected into new pods'] : []),
      ...(missed.length > 0
        ? ['containers are added to new pods only: a pod gets them when its owner recreates it']
        : []),
      ...rollOut.notes,
      ...(latestRevision === undefined ? ['it has no revision: no watcher has reconciled it yet'] : []),
      ...(observed !== undefined && observed < generation
        ? [`status.observedGeneration is ${observed}, metadata.generation is ${generation}`]
        : []),
    ],
  };
}

function stepOf({ pod: { metadata }, reason }: MissedPod): ExplainedStep {
  const { namespace = '', name } = metadata;
  return { step: `inject into ${namespace}/${name}`, state: 'Missed', detail: missedText[reason] };
}
