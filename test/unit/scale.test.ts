import { describe, expect, it } from '@jest/globals';
import { stages, usualPace } from '../../deploy/local/kwok-stages.ts';
import { withSection } from '../bench/document.ts';
import { judge, others, type StepFigures, type StepName } from '../scale/judge.ts';
import { countCalls, since } from '../scale/readings.ts';
import { report } from '../scale/report.ts';

function figures(pods: number, step: StepName, change: Partial<StepFigures> = {}): StepFigures {
  return { pods, step, seconds: 10, calls: [], historyEvents: 0, usage: [], stolenPercent: 0, load: 1, ...change };
}

function podWrites(role: string, count: number) {
  return { role, reads: 0, writes: count, podWrites: count, refused: 0 };
}

describe('judge', () => {
  it('holds ten times the pods to ten times the time', () => {
    const at = (seconds: number) => judge([figures(100, 'create'), figures(1_000, 'create', { seconds })]);
    expect(at(100)).toMatchObject([{ figure: '10.0 times', holds: true }]);
    expect(at(101)).toMatchObject([{ figure: '10.1 times', holds: false }]);
  });

  it('holds the CPU of Windlass to the same, and not that of the cluster', () => {
    const used = (watcher: number) => ({
      usage: [
        { role: 'watcher', cpuSeconds: watcher, rssMegabytes: 100 },
        { role: others, cpuSeconds: watcher ** 2, rssMegabytes: 100 },
      ],
    });
    const at = (cpu: number) => judge([figures(100, 'create', used(2)), figures(1_000, 'create', used(cpu))])[1];
    expect(at(20)).toMatchObject({ figure: '10.0 times', holds: true });
    expect(at(21)).toMatchObject({ figure: '10.5 times', holds: false });
  });

  it('holds the writes of all roles together to four for each pod that is updated', () => {
    const of = (count: number) =>
      judge([figures(100, 'update, 10 % at once', { calls: [podWrites('watcher', count), podWrites('worker', 100)] })]);
    expect(of(300)).toMatchObject([{ figure: '4.00', holds: true }]);
    expect(of(301)).toMatchObject([{ figure: '4.01', holds: false }]);
  });

  it('judges nothing that was not measured', () => {
    expect(judge([figures(100, 'scale to zero'), figures(5_000, 'scale to zero')])).toEqual([]);
  });
});

describe('countCalls', () => {
  it('tells reads from writes, and leaves leases out', () => {
    const line = (labels: string, count: number) => `windlass_kube_requests_total{${labels}} ${count}`;
    const metrics = [
      '# HELP windlass_kube_requests_total Requests',
      line('verb="GET",resource="pods",status="200",role="watcher"', 3),
      line('verb="WATCH",resource="pods",status="200",role="watcher"', 1),
      line('verb="PATCH",resource="pods",status="200",role="watcher"', 5),
      line('verb="PATCH",resource="pods",status="409",role="watcher"', 2),
      line('verb="POST",resource="events",status="201",role="watcher"', 4),
      line('verb="PUT",resource="leases",status="200",role="watcher"', 9),
      'windlass_queue_depth{queue="x"} 1',
    ].join('\n');
    expect(countCalls('watcher', metrics)).toEqual({ role: 'watcher', reads: 4, writes: 11, podWrites: 7, refused: 2 });
  });
});

describe('since', () => {
  it('answers what was added, and the memory of the end', () => {
    const at = (factor: number) => ({
      calls: [{ role: 'watcher', reads: factor, writes: 2 * factor, podWrites: factor, refused: 0 }],
      usage: [{ role: 'watcher', cpuSeconds: factor, rssMegabytes: 100 * factor }],
    });
    expect(since(at(1), at(3))).toEqual({
      calls: [{ role: 'watcher', reads: 2, writes: 4, podWrites: 2, refused: 0 }],
      usage: [{ role: 'watcher', cpuSeconds: 2, rssMegabytes: 300 }],
    });
  });
});

describe('report', () => {
  it('says what was not measured, and which claims do not hold', () => {
    const text = report(
      [figures(100, 'create')],
      [{ claim: 'a', figure: '5', holds: false }],
      ['fleet-5000: too slow'],
    );
    expect(text).toContain('| 100 | create | 10.0 | 100.0 | 0 | 1.0 | 0 |');
    expect(text).toContain('| a | 5 | **no** |');
    expect(text).toContain('Not measured:\n\n- fleet-5000: too slow');
  });
});

describe('withSection', () => {
  it('replaces the section of one command and leaves the others alone', () => {
    const first = withSection('', 'bench -- recreate', 'A\n');
    const both = withSection(first, 'test:scale', 'B');
    expect(withSection(both, 'bench -- recreate', 'C')).toBe(both.replace('\nA\n', '\nC\n'));
    expect(withSection(both, 'test:scale', 'D')).toBe(both.replace('\nB\n', '\nD\n'));
    const all = withSection(both, 'bench -- probes', 'P');
    expect(all.match(/^[ABP]$/gm)).toEqual(['A', 'P', 'B']);
    expect(withSection(all, 'bench -- probes', 'P')).toBe(all);
  });

  it('keeps nothing that no command has written', () => {
    expect(withSection('# Performance\n\nby hand\n', 'test:scale', 'new')).not.toContain('by hand');
  });
});

describe('stages of played nodes', () => {
  it('answer each state of a pod by one stage: none ends a pod that is not deleted', () => {
    const all = stages(usualPace).map(({ metadata, spec }) => ({ name: metadata.name, text: JSON.stringify(spec) }));
    expect(all.map(({ name }) => name)).toEqual([
      'node-ready',
      'pod-start',
      'pod-follow-spec',
      'pod-readiness',
      'pod-end',
    ]);
    for (const { name, text } of all.filter((one) => one.name.startsWith('pod-'))) {
      const ends = name === 'pod-end';
      expect(text.includes('"key":".metadata.deletionTimestamp","operator":"DoesNotExist"')).toBe(!ends);
      expect(text.includes('"delete":true')).toBe(ends);
    }
  });
});
