import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { Scenario } from '../campaign.ts';
import { judge } from '../chaos-subject.ts';
import { containersOf } from '../pod-record.ts';
import { RecreateRequests } from '../subjects/recreate-requests.ts';
import { eachStep } from '../subjects/recreated-pods.ts';
import { untilDone } from '../world.ts';

/** A judge who never objects proves nothing: a container is ended once more behind everybody's back. */
export const witnesses: readonly Scenario[] = [
  {
    name: 'witnesses',
    about: 'a second end of a container, made on purpose, is seen by every witness',
    async run(world, _random, report) {
      const requests = await RecreateRequests.prepare(world, {
        plans: eachStep().filter(({ step }) => step === 'stopping first'),
      });
      for (const { reach } of requests.steps) await reach();
      await requests.settled();
      await judge(requests, report);

      const [pod] = requests.pods;
      const third = async () => {
        const ref = { namespace: requests.namespace, name: pod?.plan.name ?? '' };
        const seen = await world.kube.get<Pod>(kubeResource.pods, ref);
        const now = containersOf(seen).find(({ name }) => name === 'third');
        return { node: seen.spec.nodeName ?? '', id: now?.id ?? '', isBack: now?.restartCount === 2 && now.ready };
      };
      const { node, id } = await third();
      await world.runtime.crash(node, id);
      await untilDone('the container to be started once more', async () => {
        if (!(await third()).isBack) throw new Error('not yet');
      });
      report.fault('container ended by hand');

      const each = ["by its pod's status", 'the runtime lists', 'was stopped', 'the watch saw', 'was started'];
      const objections = await untilDone('every witness to object', async () => {
        const { pending: seen } = await requests.objections();
        const silent = each.filter((words) => !seen.some((text) => text.includes(words)));
        if (silent.length > 0) throw new Error(`no witness said ${silent.join(', ')}: ${seen.join('; ')}`);
        return seen.length;
      });
      report.outcome('objections, as there should be', objections);
      await requests.remove();
    },
  },
];
