import type { ContainerRecreateRequest } from '../../../api/container-recreate-request/types.ts';
import type { Node } from '../../../api/core/node.ts';
import type { Pod } from '../../../api/core/pod.ts';
import type { Cache } from '../../../kube/cache.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { CommandEvents } from '../../operator-commands.ts';
import type { Starter } from '../../starter.ts';
import type { RefreshGates } from '../pod/environment-refresh.ts';

export interface RequestPassDependencies {
  readonly kube: Pick<KubeClient, 'get' | 'patch' | 'delete' | 'create'>;
  readonly requests: Cache<ContainerRecreateRequest>;
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<Node>;
  readonly starter: Pick<Starter, 'want' | 'forget' | 'tell' | 'command' | 'isSent' | 'trouble'>;
  readonly commandEvents: CommandEvents;
  readonly gates: RefreshGates;
  readonly now: () => number;
}
