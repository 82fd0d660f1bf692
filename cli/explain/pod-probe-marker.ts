import type { MarkerWaitReason } from '../../api/pod-probe-marker/texts.ts';
import { type PodProbeMarker, podProbeMarker } from '../../api/pod-probe-marker/types.ts';
import type { ExplainedWait, Explainer, HelpfulCommand } from './explanation.ts';
import { readObject, staleNotes, waitIn } from './read.ts';

/** PodProbeMarkers: how many pods are probed, and why one is not. The daemons probe, so there is no workflow. */
export const podProbeMarkerExplainer: Explainer = {
  versions: [podProbeMarker],
  shortNames: [],
  explain: async (asked, means) => {
    const marker = await readObject<PodProbeMarker>(means.kube, asked);
    const { namespace = '', name } = marker.metadata;
    const { probes } = marker.spec;
    const waits = waitIn(marker.status);
    return {
      kind: podProbeMarker.kind,
      namespace,
      name,
      summary: `${marker.status?.matchedPods ?? 0} pods are matched, each with ${probes.map((probe) => probe.name).join(', ')}`,
      waits,
      steps: [],
      commands: [
        ...waits.flatMap((wait) => commandsFor(wait, namespace)),
        {
          command: `kubectl -n ${namespace} get events --field-selector reason=KruiseProbeFailed`,
          effect: 'shows probes that have failed',
        },
        {
          command: 'kubectl get nodepodprobes',
          effect: 'lists the nodes with their probes; -o yaml shows each result',
        },
      ],
      notes: staleNotes(marker),
    };
  },
};

function commandsFor({ reason, blockedBy }: ExplainedWait, namespace: string): readonly HelpfulCommand[] {
  const name = blockedBy[0]?.split('/').at(-1);
  if (name === undefined) return [];
  const isAboutNode: boolean = (['NodeNotReady', 'EngineNoDaemon'] satisfies MarkerWaitReason[]).some(
    (known) => known === reason,
  );
  return isAboutNode
    ? [{ command: `kubectl describe node ${name}`, effect: `shows whether ${name} is ready` }]
    : [
        {
          command: `kubectl -n ${namespace} describe pod ${name}`,
          effect: `shows the containers and ports of ${name}`,
        },
      ];
}
