import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { ImagePullJob } from '../../../api/image-pull-job/types.ts';
import type { NodeImage } from '../../../api/node-image/types.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeWriter } from '../../../kube/fence.ts';
import type { ControllerContext } from '../../controller.ts';
import type { CommandEvents } from '../../operator-commands.ts';
import type { Starter } from '../../starter.ts';
import type { NodeImageEdits } from '../node-image/edits.ts';
import type { PullSecretCopies } from '../node-image/pull-secrets.ts';
import type { RefusedNodes } from './refused-nodes.ts';
import type { WaveHolder } from './wave-holder.ts';

export interface PullJobPassDependencies {
  readonly kube: Pick<KubeWriter, 'list' | 'create' | 'patch' | 'delete'>;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly commandEvents: CommandEvents;
  readonly images: ControllerContext['config']['images'];
  readonly log: ControllerContext['log'];
  readonly now: () => number;
  /** Whether this cluster pulls images at all. */
  readonly isOn: boolean;
  readonly jobs: Pick<Cache<ImagePullJob>, 'byUid' | 'byName' | 'seen'>;
  readonly nodeImages: Pick<Cache<NodeImage>, 'all' | 'byName' | 'byIndex' | 'size'>;
  readonly nodes: Pick<Cache<Node>, 'all' | 'size'>;
  readonly pods: Pick<Cache<Pod>, 'all'>;
  readonly edits: Pick<NodeImageEdits, 'edit'>;
  readonly pullSecrets: Pick<PullSecretCopies, 'sync' | 'release'>;
  /** What the operations of jobs have handed in, in the present term. */
  readonly waves: () => WaveHolder;
  /** How often Secrets are read again that are missing or could not be copied. */
  readonly secretsAgainMs: number;
  /** By job and node: its NodeImage accepts no further image, so the job continues with other nodes meanwhile. */
  readonly refusals: RefusedNodes;
  /** By job and Secret: the Event that the Secret contains no registry credentials was written. */
  readonly toldUnusable: Set<string>;
}
