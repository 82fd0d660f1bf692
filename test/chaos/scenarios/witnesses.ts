import type { Pod } from '../../../api/core/pod.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import type { Scenario } from '../campaign.ts';
import { Fleet } from '../fleet.ts';
import { containersOf } from '../pod-record.ts';
import { eachStep } from '../steps.ts';
import { untilDone } from '../world.ts';

/** A judge who never objects proves nothing: a container is ended once more behind everybody's back. */
export const witnesses: readonly Scenario[] = [
  {
    name: 'witnesses',
    about: 'a second end of a container, made on purpose, is seen by every witness',
    async run(world, _random, report) {
      const fleet = await Fleet.create(
        world,
        eachStep().filter(({ step }) => step === 'stopping first'),
      );
      await fleet.hold();
      fleet.release();
      await fleet.completed();
      await fleet.judge(report);

      const [subject] = fleet.subjects;
      const third = async () => {
        const ref = { namespace: fleet.namespace, name: subject?.plan.name ?? '' };
        const pod = await world.kube.get<Pod>(kubeResource.pods, ref);
        const now = containersOf(pod).find(({ name }) => name === 'third');
        return { node: pod.spec.nodeName ?? '', id: now?.id ?? '', isBack: now?.restartCount === 2 && now.ready };
      };
      const { node, id } = await third();
      await world.runtime.crash(node, id);
      await untilDone('the container to be started once more', async () => {
        if (!(await third()).isBack) throw new Error('not yet');
      });
      report.fault('container ended by hand');

      const each = ["by its pod's status", 'the runtime lists', 'was stopped', 'the watch saw', 'was started'];
      const objections = await untilDone('every witness to object', async () => {
        const seen: string[] = [];
        await fleet.judge({ ...report, violation: (text) => void seen.push(text) }, () => ({}), 3_000);
        const silent = each.filter((words) => !seen.some((text) => text.includes(words)));
        if (silent.length > 0) throw new Error(`no witness said ${silent.join(', ')}: ${seen.join('; ')}`);
        return seen.length;
      });
      report.outcome('objections, as there should be', objections);
      await fleet.remove();
    },
  },
];
