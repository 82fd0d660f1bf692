import { pullImagesId } from '../../api/node-image/operation.ts';
import { currentTagStatus, type NamedTag, type NodeImage, nodeImages, tagsOf } from '../../api/node-image/types.ts';
import type { ExplainedStep, Explainer } from './explanation.ts';
import { askEngine, distinct, mayRun, signalCommand, steeringCommands, stuckCommands } from './operations.ts';
import { readObject, staleNotes, waitIn } from './read.ts';

/** NodeImages: what the node pulls, how far each image is, and why one failed. */
export const nodeImageExplainer: Explainer = {
  versions: [nodeImages, { ...nodeImages, version: 'v1alpha1' }],
  shortNames: [],
  explain: async (asked, means) => {
    const node = await readObject<NodeImage>(means.kube, asked);
    const { name } = node.metadata;
    const { desired = 0, pulling = 0, succeeded = 0, failed = 0 } = node.status ?? {};
    const operation = await askEngine(pullImagesId(node.metadata), means);
    const waits = waitIn(node.status);
    const reasons = waits.map(({ reason }) => reason);
    const isSteered = mayRun(operation) && (operation.kind === 'found' || waits.length > 0);
    const effects = {
      pause: 'begins no further pull',
      retry: 'makes the next attempt at once',
      abort: 'ends all pulls of the node',
    };
    const [open] = tagsOf(node).filter((named) => currentTagStatus(node, named)?.completionTime === undefined);
    const image = open && imageOf(open);
    return {
      kind: nodeImages.kind,
      namespace: '',
      name,
      summary: `${succeeded} of ${desired} images are there, ${pulling} are being pulled, ${failed} failed`,
      waits,
      steps: stepsOf(node),
      operation,
      commands: distinct([
        ...(reasons.includes('NodeSilent') || reasons.includes('RuntimeUnreachable')
          ? [{ command: `kubectl describe node ${name}`, effect: 'shows the state of the node' }]
          : []),
        ...(reasons.includes('EngineStuck') ? stuckCommands(operation.workflowId, means) : []),
        ...(isSteered && image !== undefined
          ? [
              {
                command: signalCommand(operation.workflowId, 'skip', { engine: means.engine, target: image }),
                effect: `does not pull ${image}`,
              },
            ]
          : []),
        ...(isSteered
          ? steeringCommands(operation, means, {
              isPaused: reasons.includes('Paused'),
              effects,
              annotate: `annotate nodeimage ${name}`,
            })
          : []),
      ]),
      notes: staleNotes(node),
    };
  },
};

function imageOf({ name, tag }: NamedTag): string {
  return tag.tag.includes(':') ? `${name}@${tag.tag}` : `${name}:${tag.tag}`;
}

/** Images in progress first, then those that failed, then those that are there. */
function stepsOf(node: NodeImage): readonly ExplainedStep[] {
  const order = ['Pulling', 'Waiting', 'Failed', 'Succeeded'];
  return tagsOf(node)
    .map((named): ExplainedStep => {
      const { phase, progress = 0, fetched, message = '' } = currentTagStatus(node, named) ?? {};
      const howFar = phase === 'Pulling' ? (fetched ?? (progress > 0 ? `${progress}%` : '')) : '';
      return {
        step: imageOf(named),
        state: phase ?? 'Waiting',
        detail: [howFar, message].filter(Boolean).join('; '),
      };
    })
    .toSorted((left, right) => order.indexOf(left.state) - order.indexOf(right.state));
}
