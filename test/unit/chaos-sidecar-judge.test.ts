import { describe, expect, it } from '@jest/globals';
import { type EndedSidecar, type JobPodEvidence, jobPodViolations } from '../chaos/judges/sidecar-judge.ts';

const request = 'sidecar-termination-1';
const asked = 'Kruise SidecarTerminator is trying to terminate sidecar [logger proxy] using crr';
const stopping = (name: string) => `Stopping container ${name} by ContainerRecreateRequest ${request}`;

function sidecar(name: string, more: Partial<EndedSidecar> = {}): EndedSidecar {
  return { name, starts: 1, terms: 1, endedAtNs: [50n], ...more };
}

/** A pod whose main container failed once, and whose two sidecars were stopped after its second run. */
function evidence(more: Partial<JobPodEvidence> = {}): JobPodEvidence {
  return {
    subject: 'shop/report',
    phase: 'Succeeded',
    isJobComplete: true,
    mains: [{ name: 'main', starts: 2, runs: 2, endedAtNs: [10n, 40n] }],
    sidecars: [sidecar('proxy'), sidecar('logger')],
    early: [],
    mostTerms: 1,
    byKubelet: false,
    told: [asked, stopping('proxy'), stopping('logger')],
    request,
    isRequestComplete: true,
    open: [],
    ...more,
  };
}

describe('what speaks against the end of sidecars', () => {
  it('is nothing when each was stopped once, after the last run, and that was told', () => {
    expect(jobPodViolations(evidence())).toEqual([]);
  });

  const cases: readonly (readonly [string, Partial<JobPodEvidence>, RegExp])[] = [
    ['an end before the last run', { sidecars: [sidecar('proxy', { endedAtNs: [30n] })] }, /ended before a main/],
    ['a TERM that came too early', { early: ['proxy before main'] }, /told to end too early: proxy before main/],
    ['a second TERM', { sidecars: [sidecar('proxy', { terms: 2 })] }, /proxy was told to end 2 times/],
    ['an end without any TERM', { sidecars: [sidecar('proxy', { terms: 0 })] }, /never told to end/],
    ['a second instance', { sidecars: [sidecar('proxy', { starts: 2 })] }, /was started 2 times/],
    ['no end, or two', { sidecars: [sidecar('proxy', { endedAtNs: [] })] }, /proxy ended 0 times/],
    ['a run too many', { mains: [{ name: 'main', starts: 2, runs: 1, endedAtNs: [9n] }] }, /main was started 2 times/],
    ['a failed pod', { phase: 'Failed' }, /pod is Failed/],
    ['an open job', { isJobComplete: false }, /job is not complete/],
    ['silence about who asked', { told: [stopping('proxy'), stopping('logger')] }, /no Event says "Kruise/],
    ['silence about who stopped', { told: [asked, stopping('proxy')] }, /no Event says "Stopping container logger/],
    ['an open request', { isRequestComplete: false }, /request sidecar-termination-1 is not complete/],
    ['an open workflow', { open: ['workflow x is still open'] }, /workflow x is still open/],
  ];

  it.each(cases)('is %s', (_, more, text) => {
    expect(jobPodViolations(evidence(more)).join('\n')).toMatch(text);
  });

  it('is no second TERM when whoever stopped it died meanwhile, or when the kubelet ended it', () => {
    const sidecars = [sidecar('proxy', { terms: 2 })];
    const told = [asked.replace('logger ', ''), stopping('proxy')];
    expect(jobPodViolations(evidence({ sidecars, told, mostTerms: 2 }))).toEqual([]);
    expect(jobPodViolations(evidence({ sidecars, told: [], byKubelet: true }))).toEqual([]);
  });

  it('is no Event that a daemon had not sent when it was killed, but one lost for each death at most', () => {
    const lost = (mostTerms: number, told: readonly string[]) => jobPodViolations(evidence({ mostTerms, told }));
    expect(lost(2, [asked, stopping('proxy')])).toEqual([]);
    expect(lost(2, [asked])).toHaveLength(2);
    expect(lost(1, [asked, stopping('proxy')])).toHaveLength(1);
  });
});
