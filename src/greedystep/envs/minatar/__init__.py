"""The five MinAtar games (Young and Tian, 2019), written from their rules; equal to version 1.0.15 step for step."""
