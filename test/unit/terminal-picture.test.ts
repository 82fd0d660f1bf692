import { describe, expect, it } from '@jest/globals';
import { alignedColumns, type TerminalLine, terminalPicture } from '../../deploy/local/terminal-picture.ts';

const lines: readonly TerminalLine[] = [
  { kind: 'typed', atMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678), text: 'kubectl get crr' },
  { kind: 'answered', atMs: Date.UTC(2026, 0, 2, 3, 4, 6), text: 'NAME          PHASE' },
  { kind: 'answered', atMs: Date.UTC(2026, 0, 2, 3, 4, 6), text: 'restart-web   <none>' },
];

describe('terminalPicture', () => {
  it('shows each line with its time of day, typed ones behind a prompt', () => {
    const svg = terminalPicture({ title: 'A restart', lines, footer: 'Recorded' });
    const shown = svg
      .split('\n')
      .filter((line) => line.startsWith('<text'))
      .map((line) => line.replaceAll('</tspan>', '|').replaceAll(/<[^>]*>/g, ''));
    expect(shown).toEqual([
      '03:04:05.6|$ kubectl get crr|',
      '03:04:06.0|NAME|PHASE|',
      '03:04:06.0|restart-web|&lt;none&gt;|',
      'Recorded',
    ]);
  });

  it('puts words of one column at one place, whatever font shows them', () => {
    const svg = terminalPicture({ title: 'A restart', lines, footer: '' });
    const place = (word: string) => new RegExp(`x="([0-9.]+)">${word}<`).exec(svg)?.[1];
    expect(place('PHASE')).toBeDefined();
    expect(place('PHASE')).toBe(place('&lt;none&gt;'));
  });

  it('is the same text for the same session', () => {
    const session = { title: 'A restart', lines, footer: 'Recorded' };
    expect(terminalPicture(session)).toBe(terminalPicture(structuredClone(session)));
  });
});

describe('alignedColumns', () => {
  it('makes each column as wide as its longest word', () => {
    const rows = [
      ['PHASE', 'APP'],
      ['Recreating', 'Pending'],
    ];
    expect(alignedColumns(rows)).toEqual(['PHASE        APP', 'Recreating   Pending']);
  });
});
